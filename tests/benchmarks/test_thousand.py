"""The benchmark of a thousand ranks, with a few."""

import pytest

from benchmarks import thousand_record
from record import schema as record
from tests.helpers.drawn_figures import draw_quickly


@pytest.mark.slow
@pytest.mark.parametrize("computes", [False, True])
def test_a_record_is_made_of_the_parts_and_the_analysis_trusts_it(tmp_path, capsys, monkeypatch, computes):
    draw_quickly(monkeypatch)
    thousand_record.profile_record(tmp_path, thousand_record.example(8, 30, computes))
    run = record.load(record.find(tmp_path)[0])
    assert (len(run.ranks), len(run.ranks[7].step_times_s), run.ranks[7].host) == (8, 30, "node0007")
    assert len(run.ranks[7].compute_times_s) == (30 if computes else 0)
    assert "its figures drawn: " in capsys.readouterr().out
