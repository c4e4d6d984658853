import math

import pytest

from analysis import labels
from tests.helpers.own_records import make_record, save
from train.record.record import Server


@pytest.mark.parametrize(
    ("values", "places", "spaced"),
    [
        ([0.0, 0.5, 0.9], [0, 0.5, 0.9], ""),
        ([0.0, 0.9, 0.95, 0.99], [0, 1, 2, 3], "evenly spaced"),  # 0.95 and 0.99 would overlap, and 0 has no logarithm
        ([1, 2, 4, 64], [0, 1, 2, 6], "logarithmic"),
        ([100, 1000, math.nan], [0, 1, 2], "evenly spaced"),
        ([3.0], [3.0], ""),
    ],
)
def test_values_stand_where_their_ticks_do_not_overlap(values, places, spaced):
    assert labels.positions(values) == (pytest.approx(places), spaced)


def test_values_are_ordered_and_none_comes_last():
    result = labels.ordered_values([2.0, math.nan, 1.0, math.nan, 2.0])
    assert result[:2] == [1.0, 2.0]
    assert len(result) == 3
    assert math.isnan(result[2])


def test_a_label_says_what_tells_a_series_apart_once(results):
    for batch in (4, 8):
        swept = {"model": "resnet50", "batch_per_rank": batch, "nodes": 1}
        results.add(batch_per_rank=batch, swept=swept)
    local = results.table()
    for batch in (4, 8):
        assert labels.distinctions(local[local["batch_per_rank"] == batch], local) == [f"batch {batch}"]


@pytest.mark.parametrize(("counts", "words"), [([3, 3], "n=3"), ([1, 3, 2], "n=1 to 3")])
def test_repeats_in_words(counts, words):
    assert labels.n_range(counts) == words


def test_the_note_below_a_figure_says_how_to_read_its_local_points(results):
    results.add()
    assert labels.figure_note(results.table()) == "local: AMD EPYC 9B45, 4 cores\nbars: 95 % interval; none where n < 6"
    assert labels.figure_note(results.table().iloc[:0]) == ""


def test_a_series_that_another_distribution_measured_says_so(results):
    for backend in ("horovod", "mwms"):
        results.add(nodes=2, **{"distribution.backend": backend})
    local = results.table()
    assert labels.distinctions(local[local["backend"] == "mwms"], local) == ["distribution mwms"]


def test_how_a_strategy_differs_from_others_is_reported_also_where_it_is_alone(results):
    for backend in ("ps", "ps_cpu"):
        results.add(nodes=2, **{"distribution.backend": backend})
    local = results.table()
    printed = {backend: labels.distinctions(of, of) for backend, of in local.groupby("backend")}
    assert printed == {"ps": ["asynchronous"], "ps_cpu": ["variables on the CPU"]}


def test_cores_that_parameter_servers_had_beside_those_of_the_ranks_are_reported(results):
    settings = {"backend": "ps", "allreduce": True, "controller": "gloo"}
    run = make_record(nodes=2, distribution=settings | {"servers": 2, "servers_on": "nodes"})
    run.servers = [Server(rank, f"host{rank}", [0, 1], 1) for rank in (2, 3)]
    save(run, results.folder)
    local = results.table()
    assert labels.distinctions(local, local) == ["asynchronous", "+4 cores for servers"]
    assert labels.server_cores(local.assign(server_cores=1)) == ["+1 core for servers"]
    assert labels.server_cores(local.assign(server_cores=0)) == []
