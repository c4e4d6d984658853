from dataclasses import replace

import pytest

from analysis.table import limits
from tests.helpers.limited_records import limited
from tests.helpers.own_records import make_record, make_rounds, save, tabulated


def test_the_limits_worked_by_hand():
    # 100 GFLOP/s a rank over 20 GFLOP an image: 5 images/s a rank. A ring of 4: 2 x 3/4 x 0.1 GB at 1 GB/s is 0.15 s.
    found = limits.of(limited(make_record(nodes=4, batch_per_rank=3)))
    assert found == {limits.COMPUTE: pytest.approx(20), limits.LINK: pytest.approx(12 / 0.15)}


def test_the_slowest_link_and_the_sum_of_the_ranks_count():
    run = limited(make_record(nodes=2, batch_per_rank=3))
    run.ranks[1].matrix_products[0].times_s = [0.04]
    run.ranks[1].transfers[0].time_s = 2.0
    found = limits.of(run)
    assert found == {limits.COMPUTE: pytest.approx(7.5), limits.LINK: pytest.approx(6 / 0.2)}


def test_the_faster_of_two_measurements_counts():
    run = limited(make_record(nodes=2, batch_per_rank=3))
    rank = run.ranks[1]
    disturbed = replace(rank.matrix_products[0], times_s=[0.04]), replace(rank.transfers[0], time_s=2.0)
    rank.matrix_products.insert(0, disturbed[0])
    rank.transfers.append(disturbed[1])
    assert limits.of(run) == limits.of(limited(make_record(nodes=2, batch_per_rank=3)))


def test_half_the_bytes_take_half_the_time():
    run = limited(make_record(nodes=2, batch_per_rank=3, **{"distribution.compression": "fp16"}))
    assert limits.of(run)[limits.LINK] == pytest.approx(6 / 0.05)


def test_what_is_not_known_has_no_limit():
    assert limits.of(make_record(nodes=2)) == {}
    one = limited(make_record(nodes=1))
    assert list(limits.of(one)) == [limits.COMPUTE]  # nothing is exchanged
    control = limited(make_record(nodes=2, **{"distribution.allreduce": False}))
    assert list(limits.of(control)) == [limits.COMPUTE]
    run = limited(make_record(nodes=2))
    run.work.operations_per_image = None
    run.ranks[1].transfers = []
    assert limits.of(run) == {}


def test_arms_of_as_many_ranks_share_their_limits(results):
    run = limited(make_rounds([(0.5, 0.8, 0.55), (0.4, 0.64, 0.44)]), arms=(0, 1))
    run.ranks[0].matrix_products[0].times_s = [0.01]  # alone the rank is twice as fast
    assert [limits.of(run, place).get(limits.COMPUTE) for place in (0, 1, 2)] == pytest.approx([10, 10, 10])
    assert [limits.of(run, place).get(limits.LINK) for place in (0, 1, 2)] == [None, pytest.approx(16 / 0.1), None]
    save(run, results.folder)
    table = results.table()
    found = table[table["quantity"].eq(limits.COMPUTE)]
    assert found["round"].isna().all()
    assert found["value"].tolist() == pytest.approx([10, 10, 10])


def test_a_launch_of_one_point_has_its_limits_in_the_table(results):
    [point] = tabulated(save(limited(make_record(nodes=2)), results.folder)).points
    assert {*point.values["quantity"]} >= {limits.COMPUTE, limits.LINK}
