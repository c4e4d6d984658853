import json

import pytest

from record import schema as record
from record import ticks
from record.schema import Window
from tests.helpers.run_records import make_rounds

NO_SHA256 = "0" * 64


def test_times_of_ranks_and_their_windows_are_ticks_in_the_file_and_seconds_again():
    run = make_rounds([(0.3, 0.2, 0.1)])
    rank = run.ranks[0]
    rank.step_times_s, rank.compute_times_s = [0.3, 0.1], [0.25]
    rank.warm_up_step_times_s, rank.exchanges = [0.7], [Window(0, 1, 0.3, [0.000000001])]
    text = record.dumps(run)
    packed = json.loads(text)["ranks"][0]
    assert packed["step_times_s"] == {"ticks_per_s": 10**9, "ticks": [300_000_000, 100_000_000]}
    assert packed["warm_up_step_times_s"] == {"ticks_per_s": 10**9, "ticks": [700_000_000]}
    assert packed["compute_times_s"] == {"ticks_per_s": 10**6, "ticks": [250_000]}
    assert packed["windows"][0]["step_times_s"]["ticks"] == [300_000_000] * 2
    assert (packed["exchanges"][0]["step_times_s"]["ticks"], packed["phases_s"]) == ([1], rank.phases_s)
    loaded = record.loads(text, "r").ranks[0]
    assert (loaded.step_times_s, loaded.compute_times_s, loaded.exchanges) == ([0.3, 0.1], [0.25], rank.exchanges)
    assert [window.step_times_s for window in loaded.windows] == [[0.3] * 2, [0.2] * 2, [0.1] * 2]


def test_every_time_of_a_clock_is_read_to_the_last_digit():
    times_s = [number / 10**9 for number in range(99_999_000, 100_001_000)]
    packed = {"step_times_s": [*times_s]}
    ticks.pack(packed)
    assert ticks.seconds(ticks.Ticks(**packed["step_times_s"])) == times_s
    assert ticks.rounded([0.3 + 1e-10, 2.0], 10**9) == [0.3, 2.0]


def _edited(packed: object) -> bytes:
    """A record whose first list of times is `packed`, with a checksum that fits."""
    fields = json.loads(record.dumps(make_rounds([(0.3, 0.2, 0.1)])))
    fields["ranks"][0]["windows"][0]["step_times_s"], fields["sha256"] = packed, NO_SHA256
    text = json.dumps(fields).encode()
    return text.replace(NO_SHA256.encode(), record.digest(text, NO_SHA256).encode())


@pytest.mark.parametrize("packed", [{}, {"ticks_per_s": 0, "ticks": [1]}, {"ticks_per_s": 1, "ticks": [1.5]}])
def test_lists_of_seconds_are_read_and_malformed_ticks_are_refused_with_their_location(packed):
    assert record.loads(_edited([0.5, 1]), "r").ranks[0].windows[0].step_times_s == [0.5, 1.0]
    with pytest.raises(record.RecordError, match=r"not a whole run record: .*ranks\[0\]\.windows\[0\]\.step_times_s"):
        record.loads(_edited(packed), "r")
