from dataclasses import replace

import pytest

from analysis.experiments import summary
from analysis.table.hardware import (
    COMPUTE,
    GPUS,
    LINK,
    PROCESSORS,
    energy_per_image,
    throughput_bounds,
    window_energy_per_image,
)
from tests.helpers.own_records import Arm, limited, make_record, make_rounds, save, tabulated
from tests.helpers.own_studies import curve_in_rounds
from train.record.record import CoreUse, Server


def test_the_limits_worked_by_hand():
    # 100 GFLOP/s a rank over 20 GFLOP an image: 5 images/s a rank. A ring of 4: 2 x 3/4 x 0.1 GB at 1 GB/s is 0.15 s.
    result = throughput_bounds(limited(make_record(nodes=4, batch_per_rank=3)))
    assert result == {COMPUTE: pytest.approx(20), LINK: pytest.approx(12 / 0.15)}


def test_the_slowest_link_and_the_sum_of_the_ranks_count():
    run = limited(make_record(nodes=2, batch_per_rank=3))
    run.ranks[1].matrix_products[0].times_s = [0.04]
    run.ranks[1].transfers[0].time_s = 2.0
    result = throughput_bounds(run)
    assert result == {COMPUTE: pytest.approx(7.5), LINK: pytest.approx(6 / 0.2)}


def test_the_faster_of_two_measurements_counts():
    run = limited(make_record(nodes=2, batch_per_rank=3))
    rank = run.ranks[1]
    disturbed = replace(rank.matrix_products[0], times_s=[0.04]), replace(rank.transfers[0], time_s=2.0)
    rank.matrix_products.insert(0, disturbed[0])
    rank.transfers.append(disturbed[1])
    assert throughput_bounds(run) == throughput_bounds(limited(make_record(nodes=2, batch_per_rank=3)))


def test_half_the_bytes_take_half_the_time():
    run = limited(make_record(nodes=2, batch_per_rank=3, **{"distribution.compression": "fp16"}))
    assert throughput_bounds(run)[LINK] == pytest.approx(6 / 0.05)


def test_what_is_not_known_has_no_limit():
    assert throughput_bounds(make_record(nodes=2)) == {}
    one = limited(make_record(nodes=1))
    assert list(throughput_bounds(one)) == [COMPUTE]  # nothing is exchanged
    control = limited(make_record(nodes=2, **{"distribution.allreduce": False}))
    assert list(throughput_bounds(control)) == [COMPUTE]
    run = limited(make_record(nodes=2))
    run.work.operations_per_image = None
    run.ranks[1].transfers = []
    assert throughput_bounds(run) == {}


def test_arms_of_as_many_ranks_share_their_limits(results):
    run = limited(make_rounds([(0.5, 0.8, 0.55), (0.4, 0.64, 0.44)]), arms=(0, 1))
    run.ranks[0].matrix_products[0].times_s = [0.01]  # alone the rank is twice as fast
    assert [throughput_bounds(run, index).get(COMPUTE) for index in (0, 1, 2)] == pytest.approx([10, 10, 10])
    assert [throughput_bounds(run, index).get(LINK) for index in (0, 1, 2)] == [None, pytest.approx(16 / 0.1), None]
    save(run, results.folder)
    table = results.table()
    result = table[table["quantity"].eq(COMPUTE)]
    assert result["round"].isna().all()
    assert result["value"].tolist() == pytest.approx([10, 10, 10])


def test_a_launch_of_one_point_has_its_limits_in_the_table(results):
    [point] = tabulated(save(limited(make_record(nodes=2)), results.folder)).points
    assert {*point.values["quantity"]} >= {COMPUTE, LINK}


def use(joules: float | None = None, of_gpu: float | None = None) -> CoreUse:
    """What was counted of a rank's cores and of hardware."""
    return CoreUse(2.0, 1.9, 1.9, 0.0, energy_j=joules, gpu_energy_j=of_gpu)


def launch(*joules: float | None, hosts: int = 1, of_gpus=(None, None), **more):
    """Two ranks, four steps of 16 images: 64. The first rank of a host counts its processors."""
    run = make_record(nodes=2, **more)
    for rank, counted, of_gpu in zip(run.ranks, joules, of_gpus, strict=True):
        rank.host = f"host{rank.rank if hosts > 1 else 0}"
        rank.timed_cores = use(counted, of_gpu)
    return run


def test_all_hosts_together_over_the_images_of_the_timed_steps():
    assert energy_per_image(launch(640.0, None)) == {PROCESSORS: 10.0}
    assert energy_per_image(launch(640.0, 320.0, hosts=2)) == {PROCESSORS: 15.0}
    assert energy_per_image(launch(None, None, of_gpus=(64.0, 128.0))) == {GPUS: 3.0}


def test_hosts_of_servers_count_too():
    run = launch(640.0, None)
    run.servers = [Server(2, "host1", [0], 1, use(320.0))]
    assert energy_per_image(run) == {PROCESSORS: 15.0}
    run.servers[0].timed_cores = use(None)
    assert energy_per_image(run) == {}


def test_a_host_or_a_gpu_that_does_not_count_leaves_it_unknown():
    assert energy_per_image(launch(640.0, None, hosts=2)) == {}
    assert energy_per_image(launch(None, None, of_gpus=(64.0, None))) == {}
    assert energy_per_image(launch(0.0, None)) == {}  # a counter that stands still
    assert energy_per_image(make_record(nodes=2)) == {}


def test_in_rounds_each_arm_has_the_energy_of_its_windows():
    run = make_rounds([(1.0, 1.0)] * 3, [Arm(1), Arm(2)])
    for rank in run.ranks:
        for window in rank.windows:
            window.cores = use(100.0 * (1 + window.round) if rank.rank == 0 else None)
    # Two steps of 8 images on one rank, of 16 on two.
    alone = {(n, 0): {PROCESSORS: 100 * (1 + n) / 16} for n in range(3)}
    both = {(n, 1): {PROCESSORS: 100 * (1 + n) / 32} for n in range(3)}
    assert window_energy_per_image(run) == alone | both
    assert window_energy_per_image(make_rounds([(1.0, 1.0)] * 3, [Arm(1), Arm(2)])) == {}


def test_the_summary_has_joules_where_they_are_known_and_no_column_where_not(results):
    for repeat, joules in enumerate((600.0, 640.0, 660.0, 680.0, 700.0, 720.0)):
        save(launch(joules, None, repeat=repeat), results.folder)
    [point] = summary.points(results.table())
    # The median of six launches, and the smallest and the largest of them.
    result = point.numbers[PROCESSORS]
    assert (result.value, result.low, result.high, result.n) == pytest.approx((670 / 64, 600 / 64, 720 / 64, 6))
    [row] = summary.rows(results.table()).to_dict("records")
    assert row["joules\nan image"] == "10.47 (9.375 to 11.25)"
    assert "joules of GPUs\nan image" not in row


def test_records_without_counters_have_none(results):
    curve_in_rounds(results.folder)
    assert not {"joules\nan image", "joules of GPUs\nan image"} & set(summary.rows(results.table()))
