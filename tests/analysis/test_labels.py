import math

import pytest

from analysis import labels
from tests.helpers.run_records import make_rounds, save


@pytest.mark.parametrize(
    ("values", "positions", "spaced"),
    [
        ([0.0, 0.5, 0.9], [0, 0.5, 0.9], ""),
        ([0.0, 0.9, 0.95, 0.99], [0, 1, 2, 3], "evenly spaced"),  # 0.95 and 0.99 would overlap, and 0 has no logarithm
        ([1, 2, 4, 64], [0, 1, 2, 6], "logarithmic"),
        ([100, 1000, math.nan], [0, 1, 2], "evenly spaced"),
        ([3.0], [3.0], ""),
    ],
)
def test_values_stand_where_their_ticks_do_not_overlap(values, positions, spaced):
    assert labels.positions(values) == (pytest.approx(positions), spaced)


def test_values_are_ordered_and_none_comes_last():
    result = labels.ordered_values([2.0, math.nan, 1.0, math.nan, 2.0])
    assert result == pytest.approx([1.0, 2.0, math.nan], nan_ok=True)


@pytest.mark.parametrize(("counts", "text"), [([3, 3], "n=3"), ([1, 3, 2], "n=1 to 3")])
def test_repeats_in_words(counts, text):
    assert labels.n_range(counts) == text


def test_the_note_below_a_figure_says_how_to_read_its_local_points(results):
    results.add()
    machine = "local: AMD EPYC 9B45, 4 cores"
    assert labels.figure_note(results.table()) == f"{machine}\nbars: 95 % interval; none of fewer than 6 launches"
    assert labels.figure_note(results.table(), stacked=True) == machine
    assert labels.figure_note(results.table().iloc[:0]) == ""


def test_a_label_says_what_distinguishes_a_series_from_others(results):
    for batch, backend in ((4, "horovod"), (8, "horovod"), (8, "mwms")):
        swept = {"model": "resnet50", "batch_per_rank": batch, "nodes": 2}
        results.add(nodes=2, batch_per_rank=batch, swept=swept, **{"distribution.backend": backend})
    local = results.table()
    phrases = {key: labels.distinctions(rows, local) for key, rows in local.groupby(["batch_per_rank", "backend"])}
    assert phrases == {
        (4, "horovod"): ["batch 4", "distribution horovod"],
        (8, "horovod"): ["batch 8", "distribution horovod"],
        (8, "mwms"): ["batch 8", "distribution mwms"],
    }


def test_how_a_strategy_differs_is_said_also_where_it_is_alone(results):
    for backend in ("ps", "ps_cpu"):
        results.add(nodes=2, **{"distribution.backend": backend})
    phrases = {backend: labels.distinctions(rows, rows) for backend, rows in results.table().groupby("backend")}
    assert phrases == {"ps": ["asynchronous"], "ps_cpu": ["variables on the CPU"]}


def test_an_interval_in_rounds_says_which_variation_it_allows_for(results):
    for repeat, started_at in enumerate(("2026-11-27T10:00:00+00:00", "2026-11-27T10:11:10+00:00")):
        run = make_rounds([(0.5, 0.8, 0.55)] * 6, repeat=repeat)
        run.started_at = started_at
        save(run, results.folder)
    note = "bars: 95 % interval, for launches like these within 11 min; dots: 12 rounds in 2 launches a point"
    assert note in labels.figure_note(results.table())
    assert "another hour or day may differ by more" in labels.caption_note(results.table())
    one_launch = results.table().query("repeat == 0")
    assert "for more rounds of the same launch" in labels.interval_meaning(one_launch)
    assert labels.figure_note(one_launch.query("not round > 4")).endswith("; none of fewer than 6 rounds")
