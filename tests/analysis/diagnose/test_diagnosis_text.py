import pytest

from analysis.diagnose import diagnosis_text
from analysis.diagnose.split import splits
from tests.helpers.diagnosis_curves import curve, paired_windows


def answer(rounds):
    measured = curve(rounds)
    return diagnosis_text.answer(measured, splits(measured))


LARGEST = {  # seconds by part, and the label of the part with what to try first against it
    "slower": ("slower computing beside others", "ARGS=batch_per_rank=8"),
    "shared": ("cores shared with other processes", "FORCE=1"),
    "waiting": ("waiting for the slowest rank", "FORCE=1"),
    "exchange": ("exposed exchange", "ARGS=batch_per_rank=8"),
}
FEW = [paired_windows(exchange=0.5)] * 5
NOTHING_LOST = [paired_windows(exchange=0.01 * (-1) ** k, slower=0.01 * (-1) ** (k // 2)) for k in range(24)]
# A step of 1.5 s; exchange 0.1 s; the other part 0.4 s in one round of eight.
RARE = [paired_windows(exchange=0.1, slower=0.4 * (k % 8 == 3)) for k in range(24)]
NOT_SEPARATED = [paired_windows(exchange=0.202 + 0.02 * (-1) ** k, slower=0.2) for k in range(24)]
ONE_WAITS = [paired_windows(waiting=0.3 + 0.01 * (k % 12)) for k in range(24)]
TOO_LONG = [paired_windows(slower=2.0, exchange=-1.9)] * 24  # the step takes 1.1 s
NEGATIVE = [paired_windows(exchange=0.5, slower=-0.1 + 0.01 * (-1) ** k) for k in range(24)]
CASES = {  # rounds, how many changes are advised, and what is said
    **{
        name: (
            [paired_windows(**{part: 1.0})] * 24,
            1,
            [f"On 2 nodes the largest loss is {name}: 1000 (1000 to 1000) ms of a step of 2000 (2000 to 2000) ms.",
             f"make diagnose MODELS=resnet50 NODES=2 {change}",
             "efficiency 1 (1 to 1) instead of 0.5 (0.5 to 0.5)"],
        )
        for part, (name, change) in LARGEST.items()
    },
    "few rounds": (FEW, 0, [
        "it is not known whether time is lost: efficiency 0.667, from too few rounds or repeats",
        "5 rounds cannot show which part is the largest. By its mean: exposed exchange, 500 ms of",
        # 24 rounds need five launches of 5: four more, and one for single points
        "about 5 more minutes would: `make diagnose MODELS=resnet50 NODES=2 REPEATS=5 ARGS=measure.budget_s=360`"]),
    "nothing lost": (NOTHING_LOST, 0, ["efficiency 1 (0.989 to 1.01), so all losses take at most 1 % of a step"]),
    "two alike": (NOT_SEPARATED, 2, [
        "By its mean: exposed exchange, 202 (", "Not significantly smaller: slower computing beside others"]),
    "a rare loss": (RARE, 1, [
        "On 2 nodes a loss is certain: efficiency 0.909", "Not significantly smaller: slower computing beside others"]),
    "below zero": (NEGATIVE, 1, ["Slower computing beside others is below zero beyond its noise, -100 ("]),
    "longer than the step": (TOO_LONG, 0, ["On 2 nodes no loss is named: slower computing beside others would take"]),
    "one rank waits": (ONE_WAITS, 1, ["rank 1 on host host0, core 1: 355 (", "leave out host0"]),
    # 1 s of a step of 2 s
    "others on the cores": ([paired_windows(shared=1.0)] * 24, 1, [
        "processes took 50 % of the time of its cores, the hypervisor 0 %."]),
    "hidden exchange": ([paired_windows(exchange=1.0, whole_exchange=1.5)] * 24, 1, [
        "takes 1500 ms; hidden are 500 (500 to 500) ms"]),
    "more exposed than it takes alone": ([paired_windows(exchange=1.0, whole_exchange=0.4)] * 24, 1, [
        "hidden are -600 (-600 to -600) ms (below zero:"]),
}  # fmt: skip
UNDECIDED = ("few rounds", "nothing lost", "two alike", "one rank waits")


@pytest.mark.parametrize("case", CASES)
def test_what_the_rounds_show_and_what_to_try(case):
    rounds, changes, expected = CASES[case]
    text = " ".join(answer(rounds).sentences)
    assert [sentence for sentence in expected if sentence not in text] == []
    assert text.count("Try first") == changes
    absence = [words for words in ("nothing to gain", "below zero", "no loss") if words in text]
    assert absence == [] or case not in UNDECIDED


def test_the_table_has_every_part_and_the_bound_that_each_leaves():
    lines = diagnosis_text.report(answer([paired_windows(exchange=0.25, whole_exchange=0.5)] * 24)).splitlines()
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
    assert "by itself" not in diagnosis_text.report(answer([paired_windows(exchange=0.25)] * 6))


@pytest.mark.parametrize(
    ("rounds", "line"),
    [
        ([paired_windows(exchange=1.0)] * 24, "exposed exchange, 50 (50 to 50) % of a step"),
        ([paired_windows(exchange=1.0)] * 5, "not decided; by its mean exposed exchange, 50 % of a step"),
        (RARE, "not decided; by its mean exposed exchange, 9 ("),
        (TOO_LONG, "not known: slower computing beside others would be longer"),
    ],
)
def test_every_curve_has_its_largest_loss_in_a_line_but_one_of_a_single_node_has_none(rounds, line):
    measured = curve(rounds)
    one, two = splits(measured)
    [result] = diagnosis_text.largest_losses([(measured, [one]), (measured, [one, two])])
    assert result.startswith(f"ResNet50 on 2 nodes: {line}")
