import math

import pytest

from analysis import TableError
from analysis.audit import machine
from analysis.audit.audited_table import AuditedTable
from analysis.compare import over
from analysis.compare import published as published_numbers
from analysis.compare.published import read_tolerances
from analysis.stats import between, exact
from analysis.stats.verdict import leaning, ratio_verdict
from record.schema import Epoch
from tests.helpers.run_records import QUOTA, Arm, make_rounds, save
from tests.helpers.tidy_rows import curve, row, table

# Report 001: ResNet50 22.84, Inception v3 19.4, VGG16 8.82 images/s, to two digits; others as each test needs them.
TWO_DIGITS = {"device": "cpu", "half_unit": 0.005}
RESNET50 = [row("images_per_s", rate, n, nodes=n, **TWO_DIGITS) for n, rate in ((1, 22.84), (8, 156.33))]


def compare(results, *published, tolerances=None):
    return published_numbers.compare(table(*published), results.table(), tolerances or read_tolerances())


def rows(comparison, quantity, **where):
    where |= {"quantity": quantity}
    return [row for row in comparison.comparisons if all(getattr(row, name) == value for name, value in where.items())]


def only(comparison, quantity, **where):
    (row,) = rows(comparison, quantity, **where)
    return row


def test_speedup_efficiency_and_shape_worked_by_hand(results):
    """1 and 8 nodes of 8 images a step: 16 images/s, and 128 x 0.85."""
    results.add(nodes=1, step_s=0.5)
    results.add(nodes=8, step_s=0.5 / 0.85)
    result = compare(results, *RESNET50)
    speedup = only(result, "speedup_throughput")
    # the report: 156.33 / 22.84 images/s, 156.325 / 22.845 to 156.335 / 22.835
    assert (speedup.source[:10], speedup.point) == ("report 001", "8 nodes")
    assert speedup.reference.interval == pytest.approx((6.84285, 6.84629), abs=1e-5)
    assert (speedup.reference.value, speedup.measured.value) == pytest.approx((6.8446, 6.8), abs=1e-4)
    assert (speedup.allowed.low, speedup.allowed.high) == pytest.approx((0.9, 1.1))
    assert speedup.ratio.value == pytest.approx(6.8 / 6.8446, abs=1e-4)
    assert (speedup.verdict, speedup.note) == ("not decidable", "over 1; no interval")
    share = only(result, "efficiency_throughput")
    assert (share.reference.value, share.measured.value) == pytest.approx((0.85557, 0.85), abs=1e-5)
    assert (share.verdict, share.note) == ("for information", "over 1; judged as the speedup")
    shape = only(result, "efficiency_throughput_per_doubling")
    assert (shape.reference.value, shape.measured.value) == pytest.approx(
        (0.85557 ** (1 / 3), 0.85 ** (1 / 3)), abs=1e-5
    )
    assert shape.verdict == "for information"  # with two points it is the speedup
    raw = rows(result, "images_per_s", verdict="for information")
    assert [(row.point, row.reference.value) for row in raw] == [("1 node", 22.84), ("8 nodes", 156.33)]
    assert [row.measured.value for row in raw] == pytest.approx([16, 108.8])


def test_other_sizes_still_have_a_shape_and_what_has_no_counterpart_is_named(results):
    results.add(nodes=1, step_s=0.5)
    results.add(nodes=2, step_s=0.5 / 0.95)
    results.add(experiment="overhead")
    strong = curve("images_per_s", {1: 1, 2: 2}, experiment="strong_scaling")
    accuracy = row("validation_accuracy", 0.6, 4, experiment="fruit", model="")
    result = compare(results, *RESNET50, *strong, accuracy)
    assert not rows(result, "speedup_throughput")
    shape = only(result, "efficiency_throughput_per_doubling")
    assert (shape.measured.value, shape.verdict) == (pytest.approx(0.95), "not decidable")  # two runs have no interval
    assert result.unpaired == [
        "overhead, resnet50, 1 runs: no report prints a number for it",
        "weak_scaling, resnet50: local at 1, 2 nodes, report 001 at 1, 8",
    ]
    alone = ["report 001, fruit (gpu)", "report 001, strong_scaling (gpu, P100, lab, imagenet, batch 64 per rank)"]
    assert [line.partition(": ")[0] for line in result.reference_alone] == alone


def test_a_stated_speedup_stands_for_lost_throughputs(results):
    for nodes, step_s in ((1, 0.8), (8, 0.125)):  # strong scaling: 6.4x
        run = {"nodes": nodes, "batch_per_rank": 32 // nodes, "derived": ["batch_per_rank"]}
        results.add(experiment="strong_scaling", step_s=step_s, **run)
    stated = row("speedup_throughput", 7.2, 8, nodes=8, kind="stated", experiment="strong_scaling")
    speedup = only(compare(results, stated), "speedup_throughput")
    assert (speedup.reference.value, speedup.measured.value) == (7.2, pytest.approx(6.4))
    assert speedup.reference.interval == pytest.approx((7.15, 7.25))


def test_wall_times_are_compared_as_rates_of_work(results):
    for nodes in (1, 2):
        measure = {"name": "quick", "warm_up_steps": 0, "timed_steps": 8 // nodes, "total_steps": 8}
        run = {"nodes": nodes, "measure": measure, "steps": 8 // nodes, "warm_up_steps": 0}
        results.add(experiment="fixed_work", **run)
    walls = curve("wall_s", {1: 193.45, 2: 101.92}, experiment="fixed_work")
    jobs = curve("job_s", {1: 200, 2: 110}, experiment="fixed_work")
    result = compare(results, *walls, *jobs)
    speedup = only(result, "speedup_wall_time")
    # local: 9 steps of 8 images in 0.4 + 6 + 4 s; 5 steps of 16 in 0.4 + 6 + 2 s
    numbers = speedup.reference.value, speedup.measured.value
    assert numbers == pytest.approx((193.45 / 101.92, (80 / 8.4) / (72 / 10.4)))
    assert (speedup.point, speedup.verdict) == ("2 ranks", "not decidable")
    assert only(result, "speedup_job_time").verdict == "for information"


def test_ranks_and_threads_relative_to_the_smallest_both_have(results):
    for ranks, step_s in ((1, 1.0), (2, 0.5), (4, 0.5)):
        run = {"ranks_per_node": ranks, "batch_per_rank": 16 // ranks, "derived": ["batch_per_rank"]}
        results.add(experiment="ranks_threads", step_s=step_s, swept={"ranks_per_node": ranks}, **run)
    reported = [
        row("images_per_s", rate, ranks, 128 // ranks, ranks_per_node=ranks, experiment="ranks_threads")
        for ranks, rate in ((2, 23.34), (4, 22.97))
    ]
    relative = only(compare(results, *reported), "relative_throughput")
    assert (relative.point, relative.note) == ("4 ranks per node", "over 2; no interval")
    assert (relative.reference.value, relative.measured.value) == pytest.approx((22.97 / 23.34, 1.0))


def test_from_which_batch_on_throughput_is_flat(results):
    for batch, step_s in ((1, 0.2), (2, 0.25), (4, 0.4), (8, 0.75), (16, 1.5)):  # 5, 8, 10, 10.7, 10.7 images/s
        results.add(experiment="batch_sweep", batch_per_rank=batch, step_s=step_s, swept={"batch_per_rank": batch})
    stated = row(
        "flat_from_global_batch", 8, None, None, kind="stated", experiment="batch_sweep", model="", device="cpu"
    )
    flat = only(compare(results, stated), "flat_from_global_batch")
    assert (flat.reference.value, flat.measured.value, flat.verdict) == (8, 4, "not decidable")


def test_accuracies_and_epochs_at_the_same_number_of_ranks(results):
    epochs = [Epoch(i, 10, 5.0, 1.0, 0.9, 1.0, value) for i, value in enumerate((0.3, 0.6, 0.69, 0.685), 1)]
    results.add(experiment="caltech256", nodes=2, epochs=epochs)
    reported = [row(name, value, 2, experiment="caltech256", model="") for name, value in FINAL.items()]
    result = compare(results, *reported)
    final, stable = (only(result, name, point="2 ranks") for name in FINAL)
    assert (final.reference.value, final.measured.value) == (0.6888, 0.685)
    assert (stable.reference.value, stable.measured.value) == (15, 3)
    assert final.verdict == stable.verdict == "not decidable"  # one run


FINAL = {"validation_accuracy": 0.6888, "epochs_to_stable": 15}


WORSE = "report: resnet50 > inceptionv3 > vgg16; local: inceptionv3 > resnet50 > vgg16"
OTHER_ORDER, ALIKE = {"resnet50": 0.5, "inceptionv3": 0.4, "vgg16": 0.8}, {"resnet50": 0.49, "vgg16": 0.5}
ORDERS = {  # step times of models, their repeats, the share of pairs in the order of the report
    "certain": (OTHER_ORDER, (1, 1.001, 0.999), 2 / 3, (2 / 3, 2 / 3), "worse", WORSE),
    "one run of each has no order": (OTHER_ORDER, (1,), 2 / 3, (math.nan, math.nan), "not decidable", "no interval"),
    "not told apart by the repeats": (ALIKE, (0.8, 1.2), 1, (0, 1), "not decidable", "local: resnet50 > vgg16"),
}


@pytest.mark.parametrize(("steps_s", "repeats", "share", "interval", "verdict", "note"), ORDERS.values(), ids=ORDERS)
def test_the_order_of_the_models_is_a_share_of_their_pairs(results, steps_s, repeats, share, interval, verdict, note):
    for model, step_s in steps_s.items():
        for repeat, factor in enumerate(repeats):
            results.add(model=model, step_s=step_s * factor, repeat=repeat)
    rates = {"resnet50": 22.84, "inceptionv3": 19.4, "vgg16": 8.82}
    reported = [row("images_per_s", rate, 1, model=model, **TWO_DIGITS) for model, rate in rates.items()]
    order = only(compare(results, *reported), "order_by_throughput")
    assert (order.reference.value, order.measured.value, order.verdict) == (1, pytest.approx(share), verdict)
    assert order.measured.interval == pytest.approx(interval, nan_ok=True)
    assert note in order.note


@pytest.mark.parametrize(("control_off", "verdict"), [(-0.05, "alike"), (-0.2, "not decidable")])
def test_a_point_whose_control_is_disturbed_is_named_and_not_judged(results, control_off, verdict):
    rounds = [(0.5, 0.58 + 0.001 * (number % 3), 0.5 / (1 + control_off)) for number in range(12)]
    save(make_rounds(rounds, [Arm(1), Arm(8), Arm(8, allreduce=False)], **QUOTA), results.folder)
    speedup = only(compare(results, *RESNET50), "speedup_throughput")
    is_invalid = verdict == "not decidable"
    assert speedup.verdict == verdict
    assert ("without allreduce 8 nodes -20 % off one alone (bound 10 %)" in speedup.note) is is_invalid
    # The audit names the same points.
    assert bool(list(machine.emulated_nodes_disturbed(AuditedTable(results.table())))) is is_invalid


def test_the_same_device_is_preferred_and_the_other_one_named(results):
    results.add(experiment="weak_scaling")
    results.add(experiment="tf_benchmarks")
    reported = [row("images_per_s", 9, 1, experiment="tf_benchmarks"), row("images_per_s", 9, 1), RESNET50[0]]
    devices = [(each.experiment, each.source.split(", ")[1]) for each in compare(results, *reported).comparisons]
    assert devices == [("tf_benchmarks", "gpu"), ("weak_scaling", "cpu")]


def test_a_value_that_the_tolerances_state_needs_no_report(results):
    tolerances = [
        published_numbers.Tolerance("images_per_s", "images/s", 20.0, -0.1, experiment="overhead", at=1),
        published_numbers.Tolerance("efficiency_throughput", "fraction", 0.85, -0.1, at=2),
    ]
    for repeats, verdicts in ((1, ("not decidable", "not decidable")), (8, ("alike", "worse"))):
        for repeat in range(repeats):
            results.add(experiment="overhead", nodes=1, repeat=repeat, generation=repeats)  # 16 images/s
            results.add(experiment="overhead", nodes=2, step_s=0.625, repeat=repeat, generation=repeats)  # 25.6
        rate, share = compare(results, *RESNET50, tolerances=tolerances).comparisons
        assert (rate.point, rate.measured.value, rate.allowed.low) == ("1 node", pytest.approx(16), 0.9)
        assert (share.point, share.measured.value, share.note[:6]) == ("2 nodes", pytest.approx(0.8), "over 1")
        assert (share.verdict, rate.verdict) == verdicts


def test_a_curve_in_rounds_is_compared_with_the_interval_of_its_rounds(results):
    # 8 nodes of 8 images: 6.6 to 7.0 times one node, in 12 rounds. Distances from 6.8 of 1.80 in all, over sqrt(12 11),
    # times sqrt(pi / 2): 2.9 %; three rounds of one launch count as one: t of 3 degrees is 3.1824.
    ratios = [6.60, 7.00, 6.62, 6.98, 6.64, 6.96, 6.66, 6.94, 6.68, 6.92, 6.70, 6.90]
    save(make_rounds([(0.5, 8 * 0.5 / ratio) for ratio in ratios], [Arm(1), Arm(8)]), results.folder)
    result, half = compare(results, *RESNET50), 3.1824 * 0.0289 * 6.8 / math.sqrt(0.95 * 4)
    speedup = only(result, "speedup_throughput")
    assert (speedup.measured.value, *speedup.measured.interval) == pytest.approx(
        (6.8, 6.8 - half, 6.8 + half), abs=1e-2
    )
    assert (speedup.measured.n, speedup.verdict) == (12, "alike")
    shape = only(result, "efficiency_throughput_per_doubling")
    assert shape.measured.interval == pytest.approx(
        [(end / 8) ** (1 / 3) for end in (6.8 - half, 6.8 + half)], abs=1e-3
    )


ENTRY = {"quantity": '"efficiency_throughput"', "unit": '"fraction"', "value": '"published"'}


def read_entries(folder, *entries):
    path = folder / "t.toml"
    tables = ["\n".join(["[[tolerance]]", *(f"{key} = {value}" for key, value in entry.items())]) for entry in entries]
    path.write_text("\n".join(tables))
    return read_tolerances(path)


# A published number carries its rounding: 7 is 6.5 to 7.5. "alike" is what both ends allow, 6.75 to 7.15; "worse" is
# what neither allows.
EIGHT, SEVEN = exact(8.0), between(7.0, 6.5, 7.5)


@pytest.mark.parametrize(
    ("stated", "low", "high", "verdict"),
    [
        (EIGHT, 7.3, 8.7, "alike"),  # 7.2 to 8.8 around 8
        (EIGHT, 7.0, 7.5, "not decidable"),  # across the lower bound
        (EIGHT, 6.0, 7.1, "worse"),
        (SEVEN, 6.8, 7.1, "alike"),
        (SEVEN, 6.5, 6.7, "not decidable"),  # around 6.5 it would be, around 7.5 not
        (SEVEN, 8.2, 8.3, "not decidable"),
        (SEVEN, 8.3, 8.4, "better"),
    ],
)
def test_the_whole_interval_decides(stated, low, high, verdict):
    allowed = published_numbers.Tolerance("speedup_throughput", "x", "published", -0.1, 0.1).allowed
    result = leaning(over(between((low + high) / 2, low, high), stated), allowed)
    assert ratio_verdict(result) == verdict


def test_the_first_entry_that_fits_counts(tmp_path):
    special = ENTRY | {"value": 0.9, "lower": -0.05, "model": '"vgg16"', "at": 2}
    entries = read_entries(tmp_path, special, ENTRY | {"lower": -0.1})
    assert published_numbers.find_tolerance(entries, "efficiency_throughput", model="vgg16", at=2).value == 0.9
    assert published_numbers.find_tolerance(entries, "efficiency_throughput", model="vgg16", at=4).stated is None
    assert published_numbers.find_tolerance(entries, "images_per_s", model="vgg16", at=4) is None


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (None, "not a readable list"),
        ({"quantity": '"efficiency"'}, "quantity = 'efficiency' given"),
        ({"unit": '"x"'}, "unit = 'x' given, must be 'fraction'"),
        ({"value": '"publshed"'}, "'publshed' - at .*value"),
        ({"value": "nan"}, "value = nan given"),
        ({"lower": 0.1}, "lower = 0.1 given, must be a fraction of the value, 0 or negative"),
        ({"upper": -0.1}, "upper = -0.1 given"),
        ({"uper": 0.1}, "unknown field `uper`"),
    ],
)
def test_a_wrong_entry_is_named(tmp_path, wrong, error):
    with pytest.raises(TableError, match=rf"t\.toml: .*{error}"):
        read_entries(tmp_path, *([] if wrong is None else [ENTRY | wrong]))
