import pytest

from analysis.diagnose import text
from analysis.diagnose.split import largest_loss, slowest_rank, splits
from tests.helpers.steps_apart import TWO, curve, paired_windows


def report(*rounds):
    measured = curve(rounds)
    points = splits(measured)
    return text.report(measured, points, largest_loss(points[-1]), slowest_rank(measured, TWO))


@pytest.mark.parametrize(
    ("loss", "name", "command"),
    [
        ("slower", "slower computing beside others", "make diagnose NODES=2 MODELS=resnet50 ARGS=batch_per_rank=8"),
        ("shared", "cores shared with other processes", "make diagnose NODES=2 MODELS=resnet50 FORCE=1"),
        ("waiting", "waiting for the slowest rank", "make diagnose NODES=2 MODELS=resnet50 FORCE=1"),
        ("exchange", "exposed exchange", "make diagnose NODES=2 MODELS=resnet50 ARGS=batch_per_rank=8"),
    ],
)
def test_the_largest_loss_is_named_with_what_to_try_and_what_that_could_gain(loss, name, command):
    sentences = " ".join(report(*[paired_windows(**{loss: 1.0})] * 12).split())
    assert (
        f"On 2 nodes the largest loss is {name}: 1000 (1000 to 1000) ms of a step of 2000 (2000 to 2000) ms."
        in sentences
    )
    assert command in sentences
    assert "efficiency 1 (1 to 1) instead of 0.5 (0.5 to 0.5)" in sentences


@pytest.mark.parametrize(
    ("losses", "sentence"),
    [
        ({"waiting": 0.3}, "rank 1 on host host0, core 1: 300 (300 to 300) ms behind the others."),
        ({"waiting": 0.3}, "leave out host0"),
        ({"shared": 1.0}, "Other processes took 50 % of the time of its cores, the hypervisor 0 %."),
    ],
)
def test_the_slowest_rank_is_named_by_host_and_core_with_what_others_took(losses, sentence):
    assert sentence in " ".join(report(*[paired_windows(**losses)] * 12).split())


def test_the_table_has_every_part_and_the_bound_that_each_leaves():
    lines = report(*[paired_windows(exchange=0.25, whole_exchange=0.5)] * 6).splitlines()
    [exchange] = [line for line in lines if line.startswith("exposed exchange")]
    assert "250 (250 to 250), 20 %" in exchange
    assert any(line.startswith("measured step") and "1250 (1250 to 1250)" in line for line in lines)
    assert any(line.startswith("efficiency by throughput") and "0.8 (0.8 to 0.8)" in line for line in lines)
    assert any(line.startswith("efficiency, all exchange hidden") and "1 (1 to 1)" in line for line in lines)
    assert any(line.startswith("exchange hidden") and "250 (250 to 250)" in line for line in lines)


@pytest.mark.parametrize(
    ("whole", "sentence"),
    [
        (1.5, "takes 1500 ms; 500 ms are hidden"),
        (0.4, "More is exposed than the exchange takes by itself"),
        (1.0, "takes 1000 ms: that any of it is hidden is not significant"),
    ],
)
def test_the_exchange_by_itself_shows_how_much_is_hidden(whole, sentence):
    assert sentence in " ".join(report(*[paired_windows(exchange=1.0, whole_exchange=whole)] * 6).split())


def test_few_rounds_conclude_nothing():
    sentences = " ".join(report(*[paired_windows(exchange=0.5)] * 5).split())
    assert "fewer than 6 rounds or repeats, so nothing is concluded" in sentences
    assert "Try first" not in sentences


def test_nothing_lost_is_reported():
    rounds = [paired_windows(exchange=0.01 * (-1) ** k, slower=0.01 * (-1) ** (k // 2)) for k in range(16)]
    assert "there is nothing to gain" in " ".join(report(*rounds).split())


def test_what_cannot_be_separated_is_reported():
    rounds = [paired_windows(exchange=0.2 + 0.01 * (-1) ** k, slower=0.2) for k in range(12)]
    sentences = " ".join(report(*rounds).split())
    assert "these rounds do not show which" in sentences
    assert sentences.count("Try first") == 2


@pytest.mark.parametrize(
    ("losses", "line"),
    [({"exchange": 1.0}, "ResNet50 on 2 nodes: exposed exchange, 50 (50 to 50) % of a step"), ({}, "")],
)
def test_the_largest_loss_in_a_line(losses, line):
    measured = curve([paired_windows(**losses)] * 12)
    largest = splits(measured)[-1]
    assert text.largest_loss_line(measured, largest, largest_loss(largest)) == line
