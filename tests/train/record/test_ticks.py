import msgspec
import pytest

from train.record import ticks


def test_what_is_packed_is_unpacked_in_ranks_and_their_windows():
    rank = {"step_times_s": [0.3, 0.1], "compute_times_s": [0.25], "losses": [0.3], "windows": []}
    rank["exchanges"] = [{"step_times_s": [0.000000001], "window_s": 0.3, "compute_times_s": []}]
    record = {"job_s": 0.3, "ranks": [rank]}
    before = msgspec.json.encode(record)
    ticks.pack(record)
    assert rank["step_times_s"] == {"ticks_per_s": 10**9, "ticks": [300_000_000, 100_000_000]}
    assert rank["compute_times_s"] == {"ticks_per_s": 10**6, "ticks": [250_000]}
    assert rank["exchanges"][0]["step_times_s"]["ticks"] == [1]
    assert rank["losses"] == [0.3]
    ticks.unpack(record)
    assert msgspec.json.encode(record) == before


def test_every_time_of_a_clock_comes_back_to_the_digit():
    times = [number / 10**9 for number in range(99_999_000, 100_001_000)]
    record = {"ranks": [{"step_times_s": [*times]}]}
    ticks.pack(record)
    ticks.unpack(record)
    assert record["ranks"][0]["step_times_s"] == times


@pytest.mark.parametrize(
    "damaged", [{}, {"ranks": None}, {"ranks": [1, {"windows": "x"}]}, {"ranks": [{"windows": [2]}]}]
)
def test_what_has_no_such_lists_is_left_as_it_is(damaged):
    before = msgspec.json.encode(damaged)
    ticks.unpack(damaged)
    assert msgspec.json.encode(damaged) == before


@pytest.mark.parametrize(
    "packed", [{}, {"ticks_per_s": 0, "ticks": [1]}, {"ticks_per_s": 1, "ticks": [1.5]}, {"ticks_per_s": 1, "ticks": 2}]
)
def test_ticks_that_are_none_are_refused(packed):
    with pytest.raises(msgspec.ValidationError):
        ticks.unpack({"ranks": [{"step_times_s": packed}]})
