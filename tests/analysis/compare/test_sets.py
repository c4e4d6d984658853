from dataclasses import replace

import pytest

from analysis.__main__ import main
from analysis.compare import sets
from tests.helpers.run_records import QUOTA, Arm, Results, make_program, make_record, make_rounds, save


@pytest.fixture
def a(tmp_path):
    return Results(tmp_path / "a")


@pytest.fixture
def b(tmp_path):
    return Results(tmp_path / "b")


def compare(a, b):
    return sets.compare(a.folder, b.folder)


def rows(result, quantity):
    return [row for row in result.comparisons if row.quantity == quantity]


def test_the_same_points_before_and_after(a, b):
    for nodes, times_s, factor in ((1, (0.5,), 1.0), (2, (0.4, 0.6), 0.9), (4, (0.500, 0.502, 0.498), 0.5)):
        for repeat, step_s in enumerate(times_s):
            a.add(nodes=nodes, step_s=step_s, repeat=repeat)
            b.add(nodes=nodes, step_s=step_s * factor, repeat=repeat)
    result = compare(a, b)
    one, two, four = rows(result, "images_per_s")
    assert one.note == "one launch before and one now: how far launches differ is not known"
    assert one.verdict == two.verdict == "not decidable"  # one run, and noise
    assert (four.reference.n, four.measured.n, four.verdict) == (3, 3, "better")
    assert four.ratio.value == pytest.approx(2, rel=1e-3)
    # 0.4 + 6 + 6 steps, with 0.5 s a step 9.4 s; with 0.25 s 7.9 s
    wall = rows(result, "wall_s")[-1]
    assert (wall.ratio.value, wall.verdict) == (pytest.approx(7.9 / 9.4, rel=1e-3), "better")
    assert (result.differences, result.unpaired) == ([], [])  # the nodes vary within both sets


def test_differences_of_configuration_and_environment_are_named(a, b):
    a.add(steps=4)
    run = make_record(precision="bf16", steps=8)
    run.environment.versions["tensorflow"] = "2.15.1"
    # The port and TF_CONFIG differ in each launch.
    run.environment.variables |= {"OMP_NUM_THREADS": "2", "HOROVOD_GLOO_RENDEZVOUS_PORT": "40000", "TF_CONFIG": "{}"}
    save(run, b.folder)
    result = compare(a, b)
    assert {d.what: (d.reference, d.measured) for d in result.differences} == {
        "configuration.precision": ("fp32", "bf16"),
        "configuration.measure.timed_steps": ("4", "8"),
        "environment.versions.tensorflow": ("2.18.1", "2.15.1"),
        "environment.variables.OMP_NUM_THREADS": ("none", "2"),
    }
    # A time is that of as many images: 0.4 + 6 + 2 + 4 and 8 steps of 0.5 s, for 7 and 11 batches.
    assert rows(result, "wall_s")[0].ratio.value == pytest.approx((11.4 / 11) / (9.4 / 7))


def test_points_are_paired_by_their_configuration_and_else_only_if_that_is_clear(a, b):
    a.add()
    a.add(nodes=4)
    b.add(precision="bf16")
    b.add(batch_per_rank=16)
    a.add(model="vgg16")
    b.add(model="vgg16", step_s=0.25)
    b.add(model="vgg16", batch_per_rank=16)
    save(make_rounds([(0.5, 0.8)] * 6, [Arm(1), Arm(2)], model="alexnet"), a.folder)
    b.add(model="alexnet")
    result = compare(a, b)
    assert [(row.model, row.ratio.value) for row in rows(result, "images_per_s")] == [("vgg16", pytest.approx(2))]
    assert {line.partition(": which")[0] for line in result.unpaired} == {
        "weak_scaling, alexnet, 1 node: 1 other configurations in A, 1 in B",  # rounds are no separate launches
        "weak_scaling, alexnet, 2 nodes: in A only",
        "weak_scaling, alexnet, 1 node: in B only",  # its wall time
        "weak_scaling, resnet50, 1 node: 1 other configurations in A, 2 in B",
        "weak_scaling, resnet50, 4 nodes: in A only",
        "weak_scaling, vgg16, 1 node: in B only, in this configuration",
    }


def test_another_machine_is_compared_by_configuration(a, b):
    for results, name, step_s in ((a, "one", 0.5), (b, "another", 0.25)):
        for batch in (8, 16):
            run = make_record(batch_per_rank=batch, step_s=step_s)
            run.environment.hosts[0].cpu_model = name
            save(run, results.folder)
    result = compare(a, b)
    assert [row.ratio.value for row in rows(result, "images_per_s")] == pytest.approx([2, 2])
    assert result.unpaired == []


@pytest.mark.parametrize("arguments", [["A=x"], ["A=x", "A=y"], ["A=x", "C=y"], ["x", "y"], ["A=x", "B="]])
def test_both_sets_must_be_named(arguments, capsys):
    assert main(["compare", *arguments]) == 2
    assert "give both, as A=" in capsys.readouterr().err


def test_a_folder_without_a_complete_run_is_named(a, b, capsys):
    a.add()
    assert main(["compare", f"A={a.folder}", f"B={b.folder}"]) == 2
    assert f"{b.folder}: does not exist" in capsys.readouterr().err


@pytest.mark.slow
def test_the_speedup_of_a_launch_is_the_median_of_its_rounds(a, b):
    # 2 nodes: 1.6 times one node in A, 1.8 in B; in 12 rounds that scatter by less than 1 %
    for repeat, (base_s, scatter) in enumerate(((0.5, 5), (0.51, 3))):
        for results, speedup in ((a, 1.6), (b, 1.8)):
            arms_s = [(base_s, 2 * base_s / speedup * (1 + 0.001 * (n % scatter)), 1.1 * base_s) for n in range(12)]
            save(make_rounds(arms_s, repeat=repeat), results.folder)
    first, control = rows(compare(a, b), "speedup")
    assert [first.point, control.point] == ["2 nodes", "2 nodes, without-allreduce"]
    assert (first.ratio.value, first.reference.n, first.verdict) == (pytest.approx(1.125, rel=1e-3), 24, "better")
    assert first.ratio.contains(1.125)
    assert control.verdict == "not decidable"  # 1.0 in both


@pytest.mark.slow
def test_a_disturbed_control_is_named_and_not_judged(a, b):
    for results, day in ((a, 1), (b, 2)):  # without allreduce 29 % slower than one node
        save(replace(make_rounds([(0.5, 0.8, 0.7)] * 12, **QUOTA), started_at=f"2026-11-0{day}"), results.folder)
    result = [row for row in compare(a, b).comparisons if "2 nodes" in row.point]
    assert {row.verdict for row in result} == {"not decidable"}
    assert all("A: without allreduce 2 nodes -29 % off one alone" in row.note for row in result)


def test_copies_of_the_same_records_are_named(a, b):
    a.add()
    b.add()
    b.add(repeat=1)
    assert compare(a, b).left_out[0] == "A and B share 1 record: they are not independent"


def test_rates_of_a_program_are_compared_in_their_unit_alone(a, b, capsys):
    c = a.folder.with_name("c")
    for folder, rate, unit in ((a.folder, 100.0, "cells/s"), (b.folder, 110.0, "cells/s"), (c, 5.0, "tokens/s")):
        save(make_program(2, rate, unit), folder)
    (row,) = rows(compare(a, b), "images_per_s")
    assert (row.unit, row.ratio.value) == ("cells/s", pytest.approx(1.1))
    assert main(["compare", f"A={a.folder}", f"B={c}"]) == 2
    error = f"c: its rates are in tokens/s, those of {a.folder} in cells/s: give one unit"
    assert error in capsys.readouterr().err
