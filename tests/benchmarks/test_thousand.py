"""The benchmark of a thousand ranks, with a few."""

import pytest

from benchmarks import thousand_record
from record import schema as record
from tests.helpers.drawn_figures import draw_quickly


@pytest.mark.slow
def test_a_record_is_made_of_the_parts_and_the_analysis_trusts_it(tmp_path, capsys, monkeypatch):
    draw_quickly(monkeypatch)
    thousand_record.profile_record(tmp_path, thousand_record.example(8, 30))
    last = record.load(record.find(tmp_path)[0]).ranks[7]
    assert (len(last.step_times_s), len(last.compute_times_s), last.host) == (30, 30, "node0007")
    assert "its figures drawn: " in capsys.readouterr().out
