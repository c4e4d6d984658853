import json

import pytest

from analysis.__main__ import main
from analysis.compare import sets
from tests.helpers.own_records import Results, make_record, make_rounds, save
from tests.helpers.own_studies import curve_in_rounds


@pytest.fixture
def a(tmp_path):
    return Results(tmp_path / "a")


@pytest.fixture
def b(tmp_path):
    return Results(tmp_path / "b")


def test_the_same_points_before_and_after(a, b):
    for repeat, step in enumerate((0.500, 0.502, 0.498)):
        a.add(step_s=step, repeat=repeat)
        b.add(step_s=step / 2, repeat=repeat)
    result = sets.compare(a.folder, b.folder)
    first = result.ratios[0]
    assert (first.by, first.a.n, first.b.n, first.verdict) == ("throughput", 3, 3, "B faster")
    assert first.ratio.value == pytest.approx(2, rel=1e-3)
    # wall: 0.4 + 6 + 6 steps, with 0.5 s a step 9.4 s; with 0.25 s 7.9 s
    assert result.ratios[1].ratio.value == pytest.approx(9.4 / 7.9, rel=1e-3)
    assert (result.differences, result.alone) == ([], [])


def test_one_run_has_no_interval_and_noise_shows_nothing(a, b):
    a.add(nodes=1)
    b.add(nodes=1)
    for repeat, step in enumerate((0.4, 0.6)):
        a.add(nodes=2, step_s=step, repeat=repeat)
        b.add(nodes=2, step_s=step * 0.9, repeat=repeat)
    result = sets.compare(a.folder, b.folder).ratios
    output = {(r.point, r.by): r.verdict for r in result}
    [one] = [r for r in result if r.point == "resnet50_nodes=1" and r.by == "throughput"]
    assert one.note == "1 launch: with the variance between launches of all curves of this experiment"
    assert output["resnet50_nodes=1", "throughput"] == "no difference shown"
    assert output["resnet50_nodes=2", "throughput"] == "no difference shown"


def test_what_differs_in_the_making_is_named(a, b):
    a.add()
    run = make_record(precision="bf16")
    assert run.environment is not None
    run.environment.versions["tensorflow"] = "2.15.1"
    run.environment.variables["OMP_NUM_THREADS"] = "2"
    run.environment.variables["HOROVOD_GLOO_RENDEZVOUS_PORT"] = "40000"  # another one in each launch
    run.environment.variables["TF_CONFIG"] = "{}"  # likewise
    save(run, b.folder)
    made = {d.what: (d.a, d.b) for d in sets.compare(a.folder, b.folder).differences}
    assert made == {
        "configuration.precision": ("fp32", "bf16"),
        "environment.versions.tensorflow": ("2.18.1", "2.15.1"),
        "environment.variables.OMP_NUM_THREADS": ("none", "2"),
    }


def test_what_varies_within_both_sets_is_no_difference(a, b):
    for nodes in (1, 2):
        a.add(nodes=nodes)
        b.add(nodes=nodes)
    assert sets.compare(a.folder, b.folder).differences == []


def test_points_without_a_counterpart_and_those_that_are_not_clear(a, b):
    a.add(nodes=1)
    a.add(nodes=4)
    b.add(nodes=1, precision="bf16")
    b.add(nodes=1, batch_per_rank=16)
    result = sets.compare(a.folder, b.folder)
    assert result.ratios == []
    assert result.alone[0].startswith("weak_scaling, resnet50_nodes=1: 1 other configurations in A, 2 in B")
    assert result.alone[1] == "weak_scaling, resnet50_nodes=4: in A only"


def test_the_same_configuration_is_paired_before_another(a, b):
    a.add(batch_per_rank=8)
    b.add(batch_per_rank=8, step_s=0.25)
    b.add(batch_per_rank=16)
    result = sets.compare(a.folder, b.folder)
    assert [r.ratio.value for r in result.ratios if r.by == "throughput"] == [2]
    assert result.alone == ["weak_scaling, resnet50_nodes=1: in B only, in this configuration"]


def test_the_command_says_how_and_writes_json(a, b, capsys):
    for repeat in range(2):
        a.add(repeat=repeat, step_s=0.5 + repeat / 100)
        b.add(repeat=repeat, step_s=0.5 + repeat / 100)
    argv = ["compare", f"A={a.folder}", f"B={b.folder}"]
    assert main(argv) == 0
    output = capsys.readouterr().out
    assert "not paired" in output
    assert "no difference shown" in output
    assert main([*argv, "--format", "json"]) == 0
    ratios = json.loads(capsys.readouterr().out)["ratios"]
    assert {r["verdict"] for r in ratios} == {"no difference shown"}
    assert set(ratios[0]["ratio"]) == {"value", "low", "high", "level", "n", "covers"}


@pytest.mark.parametrize("given", [["A=x"], ["A=x", "A=y"], ["A=x", "C=y"], ["x", "y"], ["A=x", "B="]])
def test_both_sets_must_be_named(given, capsys):
    assert main(["compare", *given]) == 2
    assert "give both, as A=" in capsys.readouterr().err


def test_a_folder_without_a_complete_run_is_named(a, tmp_path, capsys):
    a.add()
    assert main(["compare", f"A={a.folder}", f"B={tmp_path / 'nothing'}"]) == 2
    assert "nothing: does not exist" in capsys.readouterr().err


@pytest.mark.slow
def test_launches_in_rounds_are_compared_arm_by_arm(a, b):
    for place, factor in ((a, 1.0), (b, 0.5)):
        save(make_rounds([(0.5 * factor, 0.8 * factor, 0.55 * factor)] * 6), place.folder)
    result = sets.compare(a.folder, b.folder)
    rates = [one for one in result.ratios if one.quantity == "images_per_s"]
    assert [(one.point.removeprefix("resnet50-rounds, "), one.by) for one in rates] == [
        ("1 nodes, batch 8", "throughput"),
        ("2 nodes, batch 8", "throughput"),
        ("2 nodes, batch 8", "wall time"),
        ("2 nodes, batch 8", "job time"),
        ("2 nodes, batch 8, without-allreduce", "throughput"),
    ]
    throughputs = [one for one in rates if one.by == "throughput"]
    assert [one.a.value for one in throughputs] == pytest.approx([16, 20, 16 / 0.55])
    assert [one.b.value for one in throughputs] == pytest.approx([32, 40, 32 / 0.55])
    assert {(one.a.n, one.verdict) for one in rates} == {(1, "no interval")}
    assert result.alone == []


@pytest.mark.slow
def test_speedups_of_points_in_rounds_are_compared_by_the_rounds(a, b):
    # 2 nodes: 1.6 times one node in A, 1.8 in B; in 12 rounds that scatter by less than 1 %
    for place, speedup in ((a, 1.6), (b, 1.8)):
        rounds = [(0.5, 1.0 / speedup * (1 + 0.001 * (number % 5)), 0.55) for number in range(12)]
        save(make_rounds(rounds), place.folder)
    single = [one for one in sets.compare(a.folder, b.folder).ratios if one.quantity == "speedup"]
    assert {(one.verdict, one.note) for one in single} == {
        ("not judged", "one launch on a side: how far launches differ is not known")
    }
    for place, speedup in ((a, 1.6), (b, 1.8)):
        rounds = [(0.51, 1.02 / speedup * (1 + 0.001 * (number % 3)), 0.561) for number in range(12)]
        save(make_rounds(rounds, repeat=1), place.folder)
    speedups = [one for one in sets.compare(a.folder, b.folder).ratios if one.quantity == "speedup"]
    assert [one.point.removeprefix("resnet50-rounds, ") for one in speedups] == [
        "2 nodes, batch 8",
        "2 nodes, batch 8, without-allreduce",
    ]
    first, control = speedups
    assert (first.ratio.value, first.a.n, first.verdict) == (pytest.approx(1.125, rel=1e-3), 24, "B faster")
    assert first.note == "2 launches: with the variance between launches of all curves of this experiment"
    assert first.ratio.low < 1.125 < first.ratio.high
    assert control.verdict == "no difference shown"  # 1.0 in both


@pytest.mark.slow
def test_a_disturbed_control_is_named_and_not_judged(a, b):
    system, launcher = {"name": "laptop", "cpus_per_node": 0.4}, {"name": "emulated", "flat_within_fraction": 0.1}
    for place in (a, b):
        rounds = [(0.5, 0.8, 0.7)] * 12  # without allreduce 29 % slower than one node
        save(make_rounds(rounds, system=system, launcher=launcher), place.folder)
    result = [one for one in sets.compare(a.folder, b.folder).ratios if "2 nodes" in one.point]
    assert {one.verdict for one in result} == {"not judged"}
    assert all("A: without allreduce 2 nodes -29 % off one alone" in one.note for one in result)


def test_points_of_a_curve_in_rounds_are_compared_by_their_times(a, b):
    curve_in_rounds(a.folder)
    curve_in_rounds(b.folder)
    result = sets.compare(a.folder, b.folder)
    points = ("resnet50_nodes=1", "resnet50-rounds, 2 nodes, batch 8")
    assert {(one.point, one.by) for one in result.ratios if one.by != "throughput"} == {
        (point, by) for point in points for by in ("wall time", "job time")
    }
