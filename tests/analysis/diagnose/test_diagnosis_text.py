import pytest

from analysis.diagnose import diagnosis_text
from analysis.diagnose.split import splits
from tests.helpers.diagnosis_curves import curve, paired_windows


def report(rounds):
    measured = curve(rounds)
    return diagnosis_text.report(diagnosis_text.answer(measured, splits(measured)))


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
    output = sentences([paired_windows(**{loss: 1.0})] * 24)
    step = "1000 (1000 to 1000) ms of a step of 2000 (2000 to 2000) ms."
    assert f"On 2 nodes the largest loss is {name}: {step}" in output
    assert f"make diagnose MODELS=resnet50 NODES=2 {change}" in output
    assert "efficiency 1 (1 to 1) instead of 0.5 (0.5 to 0.5)" in output


def test_the_table_has_every_part_and_the_bound_that_each_leaves():
    lines = report([paired_windows(exchange=0.25, whole_exchange=0.5)] * 24).splitlines()
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
NOTHING_LOST = [paired_windows(exchange=0.01 * (-1) ** k, slower=0.01 * (-1) ** (k // 2)) for k in range(24)]
# A step of 1.5 s; exchange 0.1 s; the other part 0.4 s in one round of eight.
RARE = [paired_windows(exchange=0.1, slower=0.4 * (k % 8 == 3)) for k in range(24)]
NOT_SEPARATED = [paired_windows(exchange=0.202 + 0.02 * (-1) ** k, slower=0.2) for k in range(24)]
ONE_WAITS = [paired_windows(waiting=0.3 + 0.01 * (k % 12)) for k in range(24)]
NEGATIVE = [paired_windows(exchange=0.5, slower=-0.1 + 0.01 * (-1) ** k) for k in range(24)]


@pytest.mark.parametrize(
    ("rounds", "advice", "sentence"),
    [
        (FEW, 0, "it is not known whether time is lost: efficiency 0.667, from too few rounds or repeats"),
        (FEW, 0, "5 rounds cannot show which part is the largest. By its mean: exposed exchange, 500 ms of"),
        # 24 rounds need five launches of 5: four more, and one for single points
        (FEW, 0, "about 5 more minutes would: `make diagnose MODELS=resnet50 NODES=2 REPEATS=5 "
                 "ARGS=measure.budget_s=360`"),
        (NOTHING_LOST, 0, "efficiency 1 (0.989 to 1.01), so all losses take at most 1 % of a step"),
        (NOT_SEPARATED, 2, "By its mean: exposed exchange, 202 ("),
        (NOT_SEPARATED, 2, "Not significantly smaller: slower computing beside others"),
        (RARE, 2, "On 2 nodes a loss is certain: efficiency 0.909"),
        (RARE, 2, "Not significantly smaller: slower computing beside others"),
        (NEGATIVE, 1, "Slower computing beside others is below zero beyond its noise, -100 ("),
        (ONE_WAITS, 1, "rank 1 on host host0, core 1: 355 ("),
        (ONE_WAITS, 1, "leave out host0"),
        # 1 s of a step of 2 s
        ([paired_windows(shared=1.0)] * 24, 1, "processes took 50 % of the time of its cores, the hypervisor 0 %."),
        ([paired_windows(exchange=1.0, whole_exchange=1.5)] * 24, 1, "takes 1500 ms; hidden are 500 (500 to 500) ms"),
        ([paired_windows(exchange=1.0, whole_exchange=0.4)] * 24, 1, "hidden are -600 (-600 to -600) ms (below zero:"),
    ],
)  # fmt: skip
def test_what_the_rounds_show_and_what_to_try(rounds, advice, sentence):
    assert sentence in sentences(rounds)
    assert sentences(rounds).count("Try first") == advice


ALLEGES_NOTHING = ("nothing to gain", "below zero", "no loss")


@pytest.mark.parametrize("rounds", [FEW, NOTHING_LOST, NOT_SEPARATED, ONE_WAITS])
def test_absence_is_not_stated_of_what_is_not_decided(rounds):
    assert not [words for words in ALLEGES_NOTHING if words in sentences(rounds)]


TOO_LONG = [paired_windows(slower=2.0, exchange=-1.9)] * 24  # the step takes 1.1 s


@pytest.mark.parametrize(
    ("rounds", "line"),
    [
        ([paired_windows(exchange=1.0)] * 24, "exposed exchange, 50 (50 to 50) % of a step"),
        ([paired_windows(exchange=1.0)] * 5, "not decided; by its mean exposed exchange, 50 % of a step"),
        (RARE, "not decided; by its mean exposed exchange, 9 ("),
        (TOO_LONG, "not known: slower computing beside others would be longer than the step"),
    ],
)
def test_every_curve_has_its_largest_loss_in_a_line(rounds, line):
    measured = curve(rounds)
    [result] = diagnosis_text.largest_losses([(measured, splits(measured))])
    assert result.startswith(f"ResNet50 on 2 nodes: {line}")


def test_a_curve_of_one_node_has_no_loss_in_a_line():
    measured = curve([paired_windows()] * 6)
    assert diagnosis_text.largest_losses([(measured, splits(measured)[:1])]) == []
