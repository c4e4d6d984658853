import json
from dataclasses import replace

import pytest

from analysis import labels
from analysis.commands import tune as tune_command
from record.schema import CoreUse, Failure
from tests.helpers.run_records import disturb, make_program, make_rounds, save


@pytest.fixture
def summary(command, results):
    """Return a function that runs the command over the records and returns its output."""
    return lambda *arguments, status=0: command("summary", *arguments, "--results", results.folder, status=status)


def test_what_is_assumed_is_reported_below_table_and_figures(results, summary):
    results.add(experiment="fruit", assumed=["model.name", "weights"])
    results.add(experiment="weak_scaling")
    line = "fruit, assumed, not stated by the report: model.name, weights"
    assert labels.assumptions(results.table()) == [line]
    assert line in labels.caption_note(results.table())
    assert line in summary("fruit").out.splitlines()


def test_how_many_cores_a_program_used_stands_below_its_table(results, summary):
    for nodes in (1, 2):
        run = make_program(nodes, 9.0 * nodes)
        used = CoreUse(wall_s=8.5, own_s=8.5, busy_s=8.5, steal_s=0.0)
        save(replace(run, program=replace(run.program, cores=used)), results.folder)
    line = "my_solver: nodes1 used 1.0 of 1 cores; nodes2 used 1.0 of 2 cores"
    assert line in summary("scaling").out.splitlines()


@pytest.mark.slow
def test_the_command_prints_the_table_and_draws_only_its_figures(results, summary):
    arms = {"swept": {"model": "resnet50"}, "arm_keys": ["distribution.allreduce"]}
    for role, allreduce in (("point", True), ("base", False)):
        results.add(experiment="overhead", nodes=2, role=role, **{"distribution.allreduce": allreduce, **arms})
    results.add(experiment="weak_scaling", nodes=1)
    results.add(experiment="overhead", nodes=1, failure=Failure("rank 0 was killed"))
    out = results.folder.parent / "figures"
    output = summary("overhead", "--draw", "--out", out)
    assert "overhead on AMD EPYC 9B45, 4 cores" in output.out
    assert "rank 0 was killed" in output.err
    assert [path.name for path in out.glob("*.png")] == ["own-overhead.png"]
    assert f"figures in {out}" in " ".join(output.out.split())


def contest(results, factor):
    """Save six launches of a base and of an arm whose steps take `factor` times as long."""
    for arm, role, slower, cycle in (("as-configured", "base", 1.0, 20.0), ("cycle-5ms", "point", factor, 5.0)):
        for repeat, step_s in enumerate((0.5, 0.6, 0.55, 0.7, 0.5, 0.52)):
            results.add(
                experiment="tune", nodes=2, step_s=slower * step_s, repeat=repeat, arm=arm, swept={}, role=role,
                arm_keys=["distribution.cycle_time_ms"], **{"distribution.cycle_time_ms": cycle},
            )  # fmt: skip


@pytest.fixture
def tune(command, results, monkeypatch, tmp_path):
    """Return a function that runs `tune` over a contest in which one arm is faster; settings go into `tmp_path`."""
    monkeypatch.setattr(tune_command, "SYSTEMS", tmp_path)

    def run(*arguments, status=0, factor=0.8):
        if not results.paths:
            contest(results, factor)
        return command("tune", "--results", results.folder, *arguments, status=status)

    return run


def test_the_winner_is_written_only_on_request_and_never_over_a_file(tune, tmp_path):
    assert "cycle-5ms (distribution.cycle_time_ms=5.0) is 1.25 times as fast" in tune().out
    assert not [*tmp_path.glob("*.yaml")]
    assert "Use it with SYSTEM=mine" in tune("--write", "mine").out
    assert "cycle_time_ms: 5.0" in (tmp_path / "mine.yaml").read_text()
    for dry_run in ([], ["--dry-run"]):
        assert "mine.yaml exists, and is not replaced" in tune("--write", "mine", *dry_run, status=2).err


def test_without_a_winner_nothing_is_written_and_that_is_no_error(tune, tmp_path):
    output = tune("--write", "mine", factor=1.0).out
    assert "mine.yaml is not written: there are no faster settings" in output
    assert not [*tmp_path.glob("*.yaml")]


def test_a_name_that_cannot_be_written_is_refused_before_anything_is_measured(tune):
    assert tune("--dry-run", "--write", "mine") == ("", "")
    for dry_run in ([], ["--dry-run"]):
        result = tune(*dry_run, "--write", "../mine", status=2)
        assert result.out == ""
        assert "WRITE=../mine: a name of letters, digits and _ is needed" in result.err


LEFT_OUT = "2 of 14 rounds left out: others took 38 to 48 % of a core"


@pytest.fixture
def disturbed(results):
    """Two launches with speedups of 2 x 0.5 / 0.8, and 2 x 0.5 / 1.6 in the disturbed round."""
    for repeat in range(2):
        times = [(0.5, 0.8, 0.55)] * 4 + [(0.5, 1.6, 1.1)] + [(0.5, 0.8, 0.55)] * 2
        save(disturb(make_rounds(times, repeat=repeat), {4: 0.48 - 0.1 * repeat}), results.folder)
    return results


@pytest.mark.slow  # reads the atlas
def test_the_brief_summary_says_how_many_rounds_are_left_out(disturbed, summary):
    assert LEFT_OUT in summary("weak_scaling", "--brief").out.splitlines()


def test_disturbed_rounds_are_left_out_unless_all_are_wanted_and_the_summary_says_how_many(disturbed, summary):
    assert f"{LEFT_OUT}; with them: ALL_ROUNDS=1" in summary("weak_scaling").out.splitlines()
    assert LEFT_OUT in labels.caption_note(disturbed.table())
    two_nodes = json.loads(summary("weak_scaling", "--format", "json").out)[1]
    with_them = json.loads(summary("weak_scaling", "--format", "json", "--all-rounds").out)[1]
    assert (two_nodes["rounds"], with_them["rounds"]) == (12, 14)
    assert two_nodes["speedup_throughput"]["value"] == pytest.approx(1.25)
    assert with_them["speedup_throughput"]["low"] < two_nodes["speedup_throughput"]["low"]


def test_other_tools_get_the_points_alone(results, summary):
    results.add(experiment="weak_scaling", nodes=1)
    output = summary("weak_scaling", "--format", "openmetrics").out
    assert output.startswith("# TYPE kit_images_per_s gauge\n")
    assert output.endswith("\n# EOF\n")
