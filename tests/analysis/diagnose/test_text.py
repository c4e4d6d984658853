import pytest

from analysis.diagnose import text
from analysis.diagnose.split import splits
from tests.helpers.diagnosis_curves import curve, paired_windows


def report(rounds):
    measured = curve(rounds)
    return text.report(text.answer(measured, splits(measured)))


def sentences(rounds):
    return " ".join(report(rounds).split())


@pytest.mark.parametrize(
    ("loss", "name", "change"),
    [
        ("slower", "slower computing beside others", "ARGS=batch_per_rank=8"),
        ("shared", "cores shared with other processes", "FORCE=1"),
        ("waiting", "waiting for the slowest rank", "FORCE=1"),
        ("exchange", "exposed exchange", "ARGS=batch_per_rank=8"),
    ],
)
def test_the_largest_loss_is_named_with_what_to_try_and_what_that_could_gain(loss, name, change):
    output = sentences([paired_windows(**{loss: 1.0})] * 12)
    step = "1000 (1000 to 1000) ms of a step of 2000 (2000 to 2000) ms."
    assert f"On 2 nodes the largest loss is {name}: {step}" in output
    assert f"make diagnose NODES=2 MODELS=resnet50 {change}" in output
    assert "efficiency 1 (1 to 1) instead of 0.5 (0.5 to 0.5)" in output


def test_the_table_has_every_part_and_the_bound_that_each_leaves():
    lines = report([paired_windows(exchange=0.25, whole_exchange=0.5)] * 6).splitlines()
    rows = {
        "exposed exchange": "250 (250 to 250), 20 %",
        "measured step": "1250 (1250 to 1250)",
        "efficiency by throughput": "0.8 (0.8 to 0.8)",
        "efficiency, all exchange hidden": "1 (1 to 1)",
        "exchange by itself": "500 (500 to 500)",
        "exchange hidden": "250 (250 to 250)",
    }
    for name, cell in rows.items():
        assert [line.endswith(cell) for line in lines if line.startswith(name)] == [True], name
    assert "by itself" not in report([paired_windows(exchange=0.25)] * 6)


FEW = [paired_windows(exchange=0.5)] * 5
NOTHING_LOST = [paired_windows(exchange=0.01 * (-1) ** k, slower=0.01 * (-1) ** (k // 2)) for k in range(16)]
NOT_SEPARATED = [paired_windows(exchange=0.21 + 0.02 * (-1) ** k, slower=0.2) for k in range(12)]
ONE_WAITS = [paired_windows(waiting=0.3 + 0.01 * k) for k in range(12)]


@pytest.mark.parametrize(
    ("rounds", "advice", "sentence"),
    [
        (FEW, 0, "fewer than 6 rounds or repeats, so nothing is concluded"),
        (NOTHING_LOST, 0, "there is nothing to gain"),
        (NOT_SEPARATED, 2, "exposed exchange or slower computing beside others: these rounds do not show which"),
        (ONE_WAITS, 1, "rank 1 on host host0, core 1: 355 ("),
        (ONE_WAITS, 1, "leave out host0"),
        # 1 s of a step of 2 s
        ([paired_windows(shared=1.0)] * 12, 1, "processes took 50 % of the time of its cores, the hypervisor 0 %."),
        ([paired_windows(exchange=1.0, whole_exchange=1.5)] * 6, 1, "takes 1500 ms; hidden are 500 (500 to 500) ms"),
        ([paired_windows(exchange=1.0, whole_exchange=0.4)] * 6, 1, "hidden are -600 (-600 to -600) ms (below zero:"),
    ],
)
def test_what_the_rounds_show_and_what_to_try(rounds, advice, sentence):
    assert sentence in sentences(rounds)
    assert sentences(rounds).count("Try first") == advice


@pytest.mark.parametrize(
    ("losses", "lines"),
    [({"exchange": 1.0}, ["ResNet50 on 2 nodes: exposed exchange, 50 (50 to 50) % of a step"]), ({}, [])],
)
def test_the_largest_loss_in_a_line(losses, lines):
    measured = curve([paired_windows(**losses)] * 12)
    assert text.largest_losses([(measured, splits(measured))]) == lines
