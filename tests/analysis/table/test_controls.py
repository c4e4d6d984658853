import math

import pytest

from analysis.table import controls
from tests.helpers.run_records import NO_ALLREDUCE, QUOTA, READING, Arm, make_rounds, save

STRONG = {"experiment": "strong_scaling", "derived": ["batch_per_rank"], **QUOTA}


def add(results, control_s, **run):
    """Save a point of 0.5 s a step for each number of nodes, and its control with this step time."""
    for nodes, step_s in control_s.items():
        results.add(nodes=nodes, **run, **QUOTA)
        results.add(nodes=nodes, step_s=step_s, **run, **QUOTA, **NO_ALLREDUCE)


def images_per_s(results):
    rows = results.table().query("quantity == 'images_per_s' and kind == 'measured'")
    return rows.drop_duplicates(["model", "nodes", "batch_per_rank"]).set_index("nodes", drop=False)


def test_the_control_of_weak_scaling_is_the_step_among_others_over_alone(results):
    add(results, {1: 0.5, 2: 0.51, 8: 0.625})
    for nodes in (4, 16):
        results.add(nodes=nodes, **QUOTA)
    measured = images_per_s(results)
    # 0.5 / 0.51 - 1, 0.5 / 0.625 - 1
    off = {1: 0.0, 2: -0.0196, 4: -0.2, 8: -0.2, 16: math.nan}
    assert measured["control_off"].to_dict() == pytest.approx(off, abs=1e-4, nan_ok=True)
    assert measured["control_nodes"].to_dict() == {1: 1, 2: 2, 4: 8, 8: 8, 16: None}
    assert controls.invalid(measured).to_dict() == {1: False, 2: False, 4: True, 8: True, 16: False}
    disturbed = "without allreduce 8 nodes -20 % off one alone (bound 10 %)"
    reasons = {1: "", 2: "", 4: disturbed, 8: disturbed, 16: "emulated without a control"}
    assert controls.why_invalid(measured).to_dict() == reasons
    note = controls.control_note(measured, str.upper)
    assert note.startswith("this machine cannot emulate 4, 8 nodes: without allreduce the throughput of 8 is -20 % off")
    assert "(bound: 10 %)" in note
    assert "nodes within 2 % of one alone" in controls.control_note(measured.loc[[1, 2]], str.upper)


def test_in_strong_scaling_each_batch_has_its_own_node_alone(results):
    for nodes, batch in ((1, 8), (4, 2)):
        results.add(nodes=nodes, batch_per_rank=batch, step_s=0.5, **STRONG)
        results.add(nodes=nodes, batch_per_rank=batch, step_s=0.1 * batch, **STRONG, **NO_ALLREDUCE)
    results.add(nodes=1, batch_per_rank=2, step_s=0.19, **STRONG, **NO_ALLREDUCE)
    # Not 0.8 s / 4 over 0.2 s: a step of 2 images alone took 0.19 s.
    assert images_per_s(results)["control_off"].to_dict() == pytest.approx({1: 0, 4: 0.19 / 0.2 - 1})


def test_repeats_count_by_their_mean(results):
    for repeat, among in enumerate((0.5, 0.4)):
        add(results, {1: 0.5, 2: among}, repeat=repeat)
    # 8 images a step: 16 and 20 images/s a rank, over 16
    measured = images_per_s(results)
    assert measured["control_off"][2] == pytest.approx(18 / 16 - 1)
    assert controls.invalid(measured).to_dict() == {1: False, 2: True}


def test_models_that_cannot_be_emulated_are_named(results):
    for model, control_s in (("alexnet", 0.625), ("googlenet", 0.52)):
        add(results, {1: 0.5, 8: control_s}, model=model)
    note = controls.control_note(images_per_s(results), str.upper)
    assert note.startswith("this machine cannot emulate 8 nodes of ALEXNET: without allreduce")


def test_nodes_of_whole_cores_need_no_control_and_emulated_ones_are_another_machine(results):
    results.add(nodes=2)
    results.add(nodes=2, repeat=1, **NO_ALLREDUCE | {"role": "point"})
    results.add(nodes=2, repeat=2, **QUOTA)
    table = results.table()
    assert set(table["kind"]) == {"measured"}
    machines = dict(list(table.groupby("machine")))
    assert [*machines] == ["AMD EPYC 9B45, 4 cores", "AMD EPYC 9B45, 4 cores; emulated: 20 % of a core a node"]
    whole, emulated = machines.values()
    assert not {*whole["series"]} & {*emulated["series"]}
    assert controls.control_note(whole, str.upper) == ""
    assert set(controls.why_invalid(whole)) == {""}
    assert controls.control_note(emulated, str.upper).startswith("emulated without a complete control")
    assert not controls.invalid(emulated).any()


def test_in_rounds_nodes_are_compared_within_a_round(results):
    # A rank alone, and two and four without allreduce; the machine drifts, the changes within a round do not
    arms = [Arm(1), Arm(2), Arm(2, allreduce=False), Arm(4), Arm(4, allreduce=False)]
    steps = [(0.4, 0.7), (0.5, 0.8), (0.6, 0.9)]
    save(make_rounds([(s, 2 * s, s / 0.95, 3 * s, s / off) for s, off in steps], arms, **QUOTA), results.folder)
    measured = images_per_s(results)
    assert measured["control_off"].to_dict() == pytest.approx({1: 0.0, 2: -0.05, 4: -0.2})
    assert controls.invalid(measured).to_dict() == {1: False, 2: False, 4: True}


def test_nodes_that_read_images_are_compared_with_their_batch_in_memory_and_show_no_bound(results):
    save(make_rounds([(0.7, 0.5, 0.75, 0.6, 0.625)], READING, **QUOTA), results.folder)
    measured = images_per_s(results)
    assert measured["control_off"].to_dict() == pytest.approx({1: 0.0, 2: 0.5 / 0.625 - 1})
    assert results.table().query("quantity == 'images_per_s'")["kind"].eq("measured").all()


def test_in_strong_scaling_the_control_of_fewer_nodes_has_a_smaller_batch_than_they(results):
    arms = [Arm(1, True, 8), Arm(1, False, 2), Arm(2, True, 4), Arm(4, True, 2), Arm(4, False, 2)]
    save(make_rounds([(0.5, 0.19, 0.3, 0.3, 0.25)], arms, **STRONG), results.folder)
    off = 0.19 / 0.25 - 1
    assert images_per_s(results)["control_off"].to_dict() == pytest.approx({1: 0, 2: off, 4: off})
