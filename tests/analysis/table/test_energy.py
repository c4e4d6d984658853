import pytest

from analysis.experiments import summary
from analysis.table import energy
from tests.helpers.own_records import Arm, curve_in_rounds, make_record, make_rounds, save
from train.record.record import CoreUse, Server


def use(joules: float | None = None, of_gpu: float | None = None) -> CoreUse:
    """What was counted of a rank's cores and of energy."""
    return CoreUse(2.0, 1.9, 1.9, 0.0, energy_j=joules, gpu_energy_j=of_gpu)


def launch(*joules: float | None, hosts: int = 1, of_gpus=(None, None), **more):
    """Two ranks, four steps of 16 images: 64. The first rank of a host counts its processors."""
    run = make_record(nodes=2, **more)
    for rank, counted, of_gpu in zip(run.ranks, joules, of_gpus, strict=True):
        rank.host = f"host{rank.rank if hosts > 1 else 0}"
        rank.timed_cores = use(counted, of_gpu)
    return run


def test_all_hosts_together_over_the_images_of_the_timed_steps():
    assert energy.of(launch(640.0, None)) == {energy.PROCESSORS: 10.0}
    assert energy.of(launch(640.0, 320.0, hosts=2)) == {energy.PROCESSORS: 15.0}
    assert energy.of(launch(None, None, of_gpus=(64.0, 128.0))) == {energy.GPUS: 3.0}


def test_hosts_of_servers_count_too():
    run = launch(640.0, None)
    run.servers = [Server(2, "host1", [0], 1, use(320.0))]
    assert energy.of(run) == {energy.PROCESSORS: 15.0}
    run.servers[0].timed_cores = use(None)
    assert energy.of(run) == {}


def test_a_host_or_a_gpu_that_does_not_count_leaves_it_unknown():
    assert energy.of(launch(640.0, None, hosts=2)) == {}
    assert energy.of(launch(None, None, of_gpus=(64.0, None))) == {}
    assert energy.of(launch(0.0, None)) == {}  # a counter that stands still
    assert energy.of(make_record(nodes=2)) == {}


def test_in_rounds_each_arm_has_the_energy_of_its_own_windows():
    run = make_rounds([(1.0, 1.0)] * 3, [Arm(1), Arm(2)])
    for rank in run.ranks:
        for window in rank.windows:
            window.cores = use(100.0 * (1 + window.round) if rank.rank == 0 else None)
    # Two steps of 8 images on one rank, of 16 on two.
    alone = {(n, 0): {energy.PROCESSORS: 100 * (1 + n) / 16} for n in range(3)}
    both = {(n, 1): {energy.PROCESSORS: 100 * (1 + n) / 32} for n in range(3)}
    assert energy.of_windows(run) == alone | both
    assert energy.of_windows(make_rounds([(1.0, 1.0)] * 3, [Arm(1), Arm(2)])) == {}


def test_the_summary_has_joules_where_they_are_known_and_no_column_where_not(results):
    for repeat, joules in enumerate((600.0, 640.0, 660.0, 680.0, 700.0, 720.0)):
        save(launch(joules, None, repeat=repeat), results.folder)
    [point] = summary.points(results.table())
    # The median of six launches, and the smallest and the largest of them.
    found = point.numbers[energy.PROCESSORS]
    assert (found.value, found.low, found.high, found.n) == pytest.approx((670 / 64, 600 / 64, 720 / 64, 6))
    [row] = summary.rows(results.table()).to_dict("records")
    assert row["joules\nan image"] == "10.47 (9.375 to 11.25)"
    assert "joules of GPUs\nan image" not in row


def test_records_without_counters_have_none(results):
    curve_in_rounds(results.folder)
    assert not {"joules\nan image", "joules of GPUs\nan image"} & set(summary.rows(results.table()))
