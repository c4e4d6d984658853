from dataclasses import replace

from analysis.timeline import split, text
from tests.helpers.timelines import launch_with_timeline, load


def report(launch) -> str:
    return text.report(launch, split.steps_of_rank_0(launch))


def cells(table: str, first: str) -> list[str]:
    """The cells of the row that begins so."""
    [line] = [line for line in table.splitlines() if line.strip().startswith(first)]
    return [cell.strip() for cell in line.strip().removeprefix(first).split("  ") if cell]


def test_the_parts_have_intervals_and_say_where_there_is_none(tmp_path):
    lines = report(load(launch_with_timeline(tmp_path)))
    assert lines.startswith(
        "== ResNet50, 2 ranks on 2 hosts, batch 8, flat gradients, gloo, cycle 20 ms: 8 timed steps"
    )
    assert "230 (230 to 230)" in cells(lines, "wire ")
    assert "none here" in "".join(cells(lines, "queue"))
    assert "none here" in "".join(cells(lines, "copy"))
    assert "Of 280 (280 to 280) ms of copies and wire a step, rank 0 computed during 0 (0 to 0) ms: 0 %." in lines
    assert "Gloo has no queue" in lines
    assert "One flat tensor needs no fusion buffer" in lines


def test_ranks_are_beside_each_other_and_the_clocks_are_report(tmp_path):
    lines = report(load(launch_with_timeline(tmp_path)))
    assert "600 (600 to 600)" in cells(lines, "1 on host1")
    assert "100 (100 to 100)" in cells(lines, "1 on host1")
    assert "The clocks of the hosts are known to ± 0.2 ms" in lines
    one_host = report(load(launch_with_timeline(tmp_path / "one", apart=False)))
    assert "All ranks are on one host, and have one clock." in one_host


def test_a_clock_that_is_not_known_is_report(tmp_path):
    launch = load(launch_with_timeline(tmp_path))
    launch = replace(launch, ranks=[launch.ranks[0], replace(launch.ranks[1], clock_error_s=None)])
    assert "How far the clocks of ranks 1 are from rank 0's could not be measured" in " ".join(report(launch).split())


def test_with_other_gradients_nothing_is_reported_of_a_flat_tensor(tmp_path):
    launch = load(launch_with_timeline(tmp_path))
    launch.run.config["distribution"] |= {"gradients": "separate", "controller": "mpi"}
    lines = report(launch)
    assert "flat tensor" not in lines
    assert "MPI on CPUs has no queue" in lines
