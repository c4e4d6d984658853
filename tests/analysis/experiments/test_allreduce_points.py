import pytest

from analysis.experiments import allreduce_points, summary_points
from tests.helpers.drawn_figures import draw
from tests.helpers.run_records import Results, as_sweep, make_record, save

MIB = 1 << 20


def add(results: Results, times, controller="gloo", cycle_ms=20.0, transfers=(), **settings):
    """Save a sweep: `times` has the times of each rank by message size, `transfers` those of each rank."""
    distribution = {"backend": "horovod", "allreduce": True, "controller": controller, "cycle_time_ms": cycle_ms}
    ranks = len(next(iter(times.values())))
    run = as_sweep(make_record("allreduce_bench", nodes=ranks, distribution=distribution, **settings), times, transfers)
    run.environment.horovod_built_with = ["gloo", "nccl"]
    return save(run, results.folder)


def local_table(results: Results):
    assert results.study().left_out == []
    return results.table()


def test_a_size_takes_the_median_of_its_allreduces_each_until_the_slowest_rank_had_it(results):
    # the slower rank of each: 3, 2, 5; median 3
    add(results, {MIB: [[3.0, 1.0, 5.0], [2.0, 2.0, 4.0]]})
    table = local_table(results)
    (row,) = table[table["quantity"] == "allreduce_s"].to_dict("records")
    assert (row["value"], row["unit"], row["message_bytes"], row["operations"]) == (3.0, "s", MIB, "gloo")
    assert (row["model"], row["dataset"]) == ("", "")
    assert set(table["quantity"]) >= {"job_s", "phase_timed_s", "peak_memory_bytes"}
    assert not {"images_per_s", "wall_s"} & set(table["quantity"])


def test_the_slowest_rank_is_the_limit(results):
    ring, copy = ("tcp_ring", "10.0.0.1", 4000), ("memory_copy", "", 9000)
    stream = ("tcp_stream", "10.0.0.1", 3000, 1.0)
    add(results, {MIB: [[1.0], [1.0]]}, transfers=[[(*ring, 2.0), (*copy, 1.0)], [stream, (*ring, 1.0), (*copy, 3.0)]])
    assert {name: rate.value for name, rate in allreduce_points.hardware_rates(local_table(results)).items()} == {
        "tcp_ring_bytes_per_s": 2000.0,
        "tcp_stream_bytes_per_s": 3000.0,
        "memory_copy_bytes_per_s": 3000.0,
    }


def test_points_and_their_table_worked_by_hand(results):
    ring = [[("tcp_ring", "a", 4 * 10**9, 1.0)]] * 4
    for repeat, second in enumerate((1.0, 3.0)):
        add(results, {1024: [[0.02]] * 4, 10**9: [[second]] * 4}, transfers=ring, repeat=repeat)
    add(results, {1024: [[0.001]] * 2, 10**9: [[0.5]] * 2}, controller="mpi", cycle_ms=1.0)
    table = local_table(results)
    points = allreduce_points.rounds(table)
    large = points[(points["operations"] == "gloo") & (points["message_bytes"] == 10**9)]
    assert sorted(large["rate"]) == pytest.approx([0.5e9, 1.5e9])  # 1e9 x 1.5 / 3 s, / 1 s
    gloo, mpi = summary_points.rows(table).to_dict("records")
    names = ("backend", "cycle\n[ms]", "ranks", "rounds", "launches", "1 KiB\n[ms]", "best bus\n[GB/s]")
    assert [gloo[name] for name in names[:-1]] == ["gloo", "20", 4, 2, 2, "20"]
    assert gloo["of the\nTCP ring"] == "19%"  # 3 GB in 4 s, 0.75 GB/s, of 4 GB/s
    assert [mpi[name] for name in names] == ["mpi", "1", 2, 1, 1, "1", "2 at 953.674 MiB"]
    assert allreduce_points.by_size(table).endswith(" 500 ms 2")


def test_the_mean_of_launches_has_the_interval_between_launches(results):
    for repeat, time_s in enumerate((1.0, 2.0, 3.0, 4.0, 5.0, 6.0)):
        add(results, {MIB: [[time_s]] * 2}, repeat=repeat)
    (point,) = summary_points.answer(local_table(results))
    time, bandwidth = point.allreduce_s, point.bus_bandwidth_bytes_per_s
    # Mean 3.5, standard deviation 1.8708, Student's t with 4 degrees of freedom 2.7764.
    half = 2.7764 * 1.8708 / 6**0.5
    assert (time.value, time.low, time.high) == pytest.approx((3.5, 3.5 - half, 3.5 + half), rel=1e-4)
    assert (point.message_bytes, bandwidth.value) == (MIB, pytest.approx(MIB / 3.5))  # 2 (n - 1) / n is 1 for two ranks


def test_on_gpus_nccl_carries_what_horovod_was_built_for(results):
    add(results, {1024: [[0.02]] * 2}, device="gpu")
    assert set(local_table(results)["operations"]) == {"nccl"}


def test_sizes_are_reported_in_binary_units():
    sizes = {512: "512 B", 1024: "1 KiB", 1 << 19: "512 KiB", 1 << 29: "512 MiB", 1 << 30: "1 GiB"}
    assert [allreduce_points.size_label(size) for size in sizes] == [*sizes.values()]


@pytest.mark.slow
def test_the_figures_show_times_bandwidths_and_limits(results):
    ring = ("tcp_ring", "a", 10**9, 1.0)
    for ranks in (2, 4):
        times = {1 << k: [[0.02 * 2**k / 2**10]] * ranks for k in (10, 12)}
        for repeat in range(2):
            add(results, times, transfers=[[ring]] * ranks, repeat=repeat)
    two, four = draw("own-allreduce-bench-bandwidth", local_table(results)).axes
    assert [axes.get_title("left") for axes in (two, four)] == ["2 ranks", "4 ranks"]
    flat = [line for line in four.get_lines() if list(line.get_ydata()) == [1.0, 1.0]]
    assert [line.get_label() for line in flat] == ["plain TCP, all ranks to the next one"]
    curves = [line for line in four.get_lines() if list(line.get_xdata()) == [1024, 4096]]
    # 1024 bytes in 0.02 s x 1.5
    assert any(line.get_ydata() == pytest.approx([1024 / 0.02 * 1.5 / 1e9] * 2) for line in curves)
