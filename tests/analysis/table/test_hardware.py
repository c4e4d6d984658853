from dataclasses import replace

import pytest

from analysis.experiments import summary_points
from analysis.table.hardware import COMPUTE, GPUS, LINK, PROCESSORS, energy, throughput_bounds, window_energy_per_image
from record.schema import CoreUse, Epoch, Operations, Server
from tests.helpers.run_records import Arm, make_record, make_rounds, save, with_roofline


def bounded(**run):
    """A record with the bounds of its hardware: 5 images/s a rank, and 1 GB/s for 0.1 GB of gradients."""
    return with_roofline(make_record(batch_per_rank=3, **run))


NO_EXCHANGE = {"distribution.allreduce": False}


@pytest.mark.parametrize(
    ("run", "limits"),
    [
        # A ring of 4: 2 x 3/4 x 0.1 GB at 1 GB/s is 0.15 s.
        (bounded(nodes=4), {COMPUTE: 20, LINK: 12 / 0.15}),
        (bounded(nodes=2, **{"distribution.compression": "fp16"}), {COMPUTE: 10, LINK: 6 / 0.05}),
        (bounded(nodes=1), {COMPUTE: 5}),  # nothing is exchanged
        (bounded(nodes=2, **NO_EXCHANGE), {COMPUTE: 10}),
        (make_record(nodes=2), {}),
        (replace(bounded(nodes=2), work=Operations(None, 10**8)), {LINK: 6 / 0.1}),
    ],
)
def test_the_limits_worked_by_hand(run, limits):
    assert throughput_bounds(run) == pytest.approx(limits)


def test_the_slowest_link_and_the_sum_of_the_ranks_count_each_by_its_faster_measurement():
    run = bounded(nodes=2)
    rank = run.ranks[1]
    slow = replace(rank.matrix_products[0], times_s=[0.04]), replace(rank.transfers[0], time_s=2.0)
    rank.matrix_products.insert(0, slow[0])
    rank.transfers.append(slow[1])
    assert throughput_bounds(run) == {COMPUTE: pytest.approx(10), LINK: pytest.approx(6 / 0.1)}
    del rank.matrix_products[1], rank.transfers[0]
    assert throughput_bounds(run) == {COMPUTE: pytest.approx(7.5), LINK: pytest.approx(6 / 0.2)}
    rank.transfers = []
    assert throughput_bounds(run) == {COMPUTE: pytest.approx(7.5)}


def test_arms_of_as_many_ranks_share_their_limits(results):
    run = with_roofline(make_rounds([(0.5, 0.8, 0.55), (0.4, 0.64, 0.44)]), arms=(0, 1))
    run.ranks[0].matrix_products[0].times_s = [0.01]  # alone the rank is twice as fast
    assert [throughput_bounds(run, index).get(COMPUTE) for index in (0, 1, 2)] == pytest.approx([10, 10, 10])
    assert [throughput_bounds(run, index).get(LINK) for index in (0, 1, 2)] == [None, pytest.approx(16 / 0.1), None]
    save(run, results.folder)
    result = results.table().query("quantity == @COMPUTE")
    assert result["round"].isna().all()
    assert result["value"].tolist() == pytest.approx([10, 10, 10])


def counters(joules: float | None = None, gpu_joules: float | None = None) -> CoreUse:
    """The counters of a rank's cores and of its hardware."""
    return CoreUse(2.0, 1.9, 1.9, 0.0, energy_j=joules, gpu_energy_j=gpu_joules)


def launch(*uses: CoreUse, hosts: int = 1, servers=(), **more):
    """Two ranks, four steps of 16 images: 64. The first rank of a host counts its processors."""
    run = make_record(nodes=2, **more)
    for rank, counted in zip(run.ranks, uses, strict=True):
        rank.host, rank.timed_cores = f"host{rank.rank % hosts}", counted
    run.servers = [Server(2, "host1", [0], 1, counted) for counted in servers]
    return run


@pytest.mark.parametrize(
    ("run", "joules"),
    [
        (launch(counters(640.0), counters()), {PROCESSORS: 10.0}),
        (launch(counters(640.0), counters(320.0), hosts=2), {PROCESSORS: 15.0}),
        (launch(counters(None, 64.0), counters(None, 128.0)), {GPUS: 3.0}),
        (launch(counters(640.0), counters(), servers=[counters(320.0)]), {PROCESSORS: 15.0}),
        # without the counter of a host, a server or a GPU, or with one that does not change, energy is unknown
        (launch(counters(640.0), counters(), hosts=2), {}),
        (launch(counters(640.0), counters(), servers=[counters()]), {}),
        (launch(counters(None, 64.0), counters()), {}),
        (launch(counters(0.0), counters()), {}),
        (make_record(nodes=2), {}),
    ],
)
def test_all_hosts_together_over_the_images_of_the_timed_steps(run, joules):
    assert energy(run) == joules


def test_an_epoch_has_the_energy_of_its_images():
    run = launch(counters(640.0, 64.0), counters(None, 128.0))
    run.epochs = [Epoch(number, 10, 2.0, 1.0, 0.5) for number in (1, 2)]  # ten steps of 16 images
    assert energy(run) == {PROCESSORS: 10.0, GPUS: 3.0, "joules_per_epoch": 1600.0, "gpu_joules_per_epoch": 480.0}


def test_in_rounds_each_arm_has_the_energy_of_its_windows():
    run = make_rounds([(1.0, 1.0)] * 3, [Arm(1), Arm(2)])
    assert window_energy_per_image(run) == {}
    for rank in run.ranks:
        for window in rank.windows:
            window.cores = counters(100.0 * (1 + window.round) if rank.rank == 0 else None)
    # Two steps of 8 images on one rank, of 16 on two.
    alone = {(n, 0): {PROCESSORS: 100 * (1 + n) / 16} for n in range(3)}
    both = {(n, 1): {PROCESSORS: 100 * (1 + n) / 32} for n in range(3)}
    assert window_energy_per_image(run) == alone | both


def test_the_summary_has_the_joules_that_are_known(results):
    for repeat, joules in enumerate((600.0, 640.0, 660.0, 680.0, 700.0, 720.0)):
        save(launch(counters(joules), counters(), repeat=repeat), results.folder)
    [row] = summary_points.rows(results.table()).to_dict("records")
    # The middle of the means of pairs of six launches that rise, 669.33 J for 64 images: all of them are its interval.
    assert row["joules\nan image"] == "10.46 (9.375 to 11.25)"
    assert "joules of GPUs\nan image" not in row
