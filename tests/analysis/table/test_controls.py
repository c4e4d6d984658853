import pytest

from analysis.table import controls
from tests.helpers.own_records import NO_ALLREDUCE, QUOTA, Arm, make_rounds, save


def images_per_s(table, kind: str):
    rows = table[table["quantity"].eq("images_per_s") & table["kind"].eq(kind)]
    return rows.set_index("nodes", drop=False)


def test_the_control_of_weak_scaling_is_the_step_among_others_over_alone(results):
    for nodes, step_s, control_s in ((1, 0.5, 0.5), (2, 0.6, 0.44), (4, 0.6, 0.51), (8, 1.0, 0.625)):
        results.add(nodes=nodes, step_s=step_s, **QUOTA)
        results.add(nodes=nodes, step_s=control_s, **QUOTA, **NO_ALLREDUCE)
    measured = images_per_s(results.table(), "measured")
    # 0.5 / 0.44 - 1, 0.5 / 0.51 - 1, 0.5 / 0.625 - 1
    assert measured["control_off"].to_dict() == pytest.approx({1: 0.0, 2: 0.1364, 4: -0.0196, 8: -0.2}, abs=1e-4)
    assert controls.invalid(measured).to_dict() == {1: False, 2: True, 4: False, 8: True}
    assert controls.control_note(measured, str.upper) == (
        "this machine cannot emulate 2, 8 nodes: without allreduce the throughput of 8 is -20 % off that of one "
        "alone (bound: 10 %)"
    )
    assert (
        controls.control_note(measured.loc[[1, 4]], str.upper)
        == "control: without allreduce, nodes within 2 % of one alone"
    )


def test_in_strong_scaling_each_batch_has_its_own_node_alone(results):
    strong = {"experiment": "strong_scaling", **QUOTA}
    for nodes, batch in ((1, 8), (4, 2)):
        results.add(nodes=nodes, batch_per_rank=batch, step_s=0.5, **strong)
        results.add(nodes=nodes, batch_per_rank=batch, step_s=0.1 * batch, **strong, **NO_ALLREDUCE)
    results.add(nodes=1, batch_per_rank=2, step_s=0.19, **strong, **NO_ALLREDUCE)
    # Not 0.8 s / 4 over 0.2 s: a step of 2 images alone took 0.19 s.
    assert images_per_s(results.table(), "measured")["control_off"].to_dict() == pytest.approx(
        {1: 0, 4: 0.19 / 0.2 - 1}
    )


def test_repeats_count_by_their_mean(results):
    for repeat, among in enumerate((0.5, 0.4)):
        results.add(nodes=1, repeat=repeat, step_s=0.5, **QUOTA, **NO_ALLREDUCE)
        results.add(nodes=2, repeat=repeat, step_s=among, **QUOTA, **NO_ALLREDUCE)
    # 8 images a step: 16 and 20 images/s a rank, over 16
    result = controls.deviations(results.table()).set_index("nodes")["control_off"]
    assert result[2] == pytest.approx(18 / 16 - 1)


def test_of_several_models_those_are_named_that_cannot_be_emulated(results):
    for model, control_s in (("alexnet", 0.625), ("googlenet", 0.52)):
        for nodes, step_s in ((1, 0.5), (8, control_s)):
            results.add(model=model, nodes=nodes, **QUOTA)
            results.add(model=model, nodes=nodes, step_s=step_s, **QUOTA, **NO_ALLREDUCE)
    printed = controls.control_note(images_per_s(results.table(), "measured"), str.upper)
    assert printed.startswith("this machine cannot emulate 8 nodes of ALEXNET: without allreduce")


def test_what_has_no_control_says_so(results):
    results.add(nodes=2, **QUOTA)
    table = results.table()
    assert controls.control_note(table, str.upper).startswith("emulated without a complete control")
    assert not controls.invalid(table).any()


def test_nodes_of_whole_cores_need_no_control(results):
    results.add(nodes=2)
    results.add(nodes=2, repeat=1, **NO_ALLREDUCE | {"role": "point"})
    table = results.table()
    assert set(table["kind"]) == {"measured"}
    assert controls.control_note(table, str.upper) == ""
    assert set(controls.why_invalid(table)) == {""}


def test_an_emulated_machine_says_so_and_is_a_separate_one(results):
    results.add(nodes=1)
    results.add(nodes=1, repeat=1, **QUOTA)
    table = results.table()
    assert sorted(table["machine"].unique()) == [
        "AMD EPYC 9B45, 4 cores",
        "AMD EPYC 9B45, 4 cores; emulated: 20 % of a core a node",
    ]
    assert table["series"].nunique() == 2


def test_in_rounds_nodes_are_compared_within_a_round(results):
    # A rank alone, and two and four without allreduce; the machine drifts, the changes within a round do not
    arms = [Arm(1), Arm(2), Arm(2, allreduce=False), Arm(4), Arm(4, allreduce=False)]
    alone = (0.4, 0.5, 0.6)
    rounds = [
        (step, 2 * step, step / 0.95, 3 * step, step / off) for step, off in zip(alone, (0.7, 0.8, 0.9), strict=True)
    ]
    save(make_rounds(rounds, arms, **QUOTA), results.folder)
    measured = results.table().query("kind == 'measured' and quantity == 'images_per_s'")
    result = measured.drop_duplicates("nodes").set_index("nodes")["control_off"]
    assert result.to_dict() == pytest.approx({1: 0.0, 2: -0.05, 4: -0.2})
    assert controls.invalid(measured).groupby(measured["nodes"]).all().to_dict() == {1: False, 2: False, 4: True}


def test_in_rounds_of_strong_scaling_each_batch_has_its_own_node_alone(results):
    arms = [Arm(1, True, 8), Arm(1, False, 2), Arm(4, True, 2), Arm(4, False, 2)]
    strong = {"experiment": "strong_scaling", "derived": ["batch_per_rank"], **QUOTA}
    save(make_rounds([(0.5, 0.19, 0.3, 0.2)], arms, **strong), results.folder)
    result = controls.deviations(results.table()).set_index(["nodes", "batch_per_rank"])["control_off"]
    assert result.to_dict() == pytest.approx({(1, 8): 0, (1, 2): 0, (4, 2): 0.19 / 0.2 - 1})


def test_why_a_point_is_no_measurement_of_scaling(results):
    for nodes, control_s in ((1, 0.5), (2, 0.51), (8, 0.625)):
        results.add(nodes=nodes, **QUOTA)
        results.add(nodes=nodes, step_s=control_s, **QUOTA, **NO_ALLREDUCE)
    results.add(nodes=4, **QUOTA)
    results.add(nodes=16, **QUOTA)
    assert controls.why_invalid(images_per_s(results.table(), "measured")).to_dict() == {
        1: "",
        2: "",
        4: "without allreduce 8 nodes -20 % off one alone (bound 10 %)",
        8: "without allreduce 8 nodes -20 % off one alone (bound 10 %)",
        16: "emulated without a control",
    }


def test_a_point_without_a_control_has_that_of_the_next_larger_number_of_nodes(results):
    # Curves of 8 and of 16 images a rank, each with a control at 8 nodes: 0.5 / 0.55 and 0.5 / 0.52
    for batch, control_s in ((8, 0.55), (16, 0.52)):
        for nodes in (1, 2, 4, 8):
            results.add(nodes=nodes, batch_per_rank=batch, **QUOTA)
        results.add(nodes=1, batch_per_rank=batch, step_s=0.5, **QUOTA, **NO_ALLREDUCE)
        results.add(nodes=8, batch_per_rank=batch, step_s=control_s, **QUOTA, **NO_ALLREDUCE)
    measured = results.table().query("quantity == 'images_per_s' and kind == 'measured'")
    result = measured.set_index(["batch_per_rank", "nodes"])[["control_off", "control_nodes"]]
    assert result["control_off"].to_dict() == pytest.approx(
        {(8, 1): 0, (16, 1): 0}
        | {(8, nodes): 0.5 / 0.55 - 1 for nodes in (2, 4, 8)}
        | {(16, nodes): 0.5 / 0.52 - 1 for nodes in (2, 4, 8)}
    )
    assert result.loc[8, "control_nodes"].to_dict() == {1: 1, 2: 8, 4: 8, 8: 8}


def test_in_strong_scaling_the_control_of_fewer_nodes_has_a_smaller_batch_than_they(results):
    arms = [Arm(1, True, 8), Arm(1, False, 2), Arm(2, True, 4), Arm(4, True, 2), Arm(4, False, 2)]
    strong = {"experiment": "strong_scaling", "derived": ["batch_per_rank"], **QUOTA}
    save(make_rounds([(0.5, 0.19, 0.3, 0.3, 0.25)], arms, **strong), results.folder)
    measured = results.table().query("kind == 'measured' and quantity == 'images_per_s'")
    result = measured.drop_duplicates("nodes").set_index("nodes")["control_off"]
    assert result.to_dict() == pytest.approx({1: 0, 2: 0.19 / 0.25 - 1, 4: 0.19 / 0.25 - 1})
