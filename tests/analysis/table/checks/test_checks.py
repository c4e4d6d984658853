import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.table.checks import contradictions
from benchmarks.faults import record_edits
from tests.helpers import noisy_records
from tests.helpers.run_records import make_record


def result(run):
    """Whether the record is left out: it contradicts itself, or cannot be read."""
    try:
        return bool(contradictions(run))
    except (LookupError, TypeError, ValueError, ZeroDivisionError):
        return True


@settings(max_examples=25)
@given(kind=st.sampled_from(sorted(noisy_records.KINDS)), seed=st.integers(0, 10**6), nodes=st.integers(2, 4))
def test_a_clean_record_has_no_finding_however_noisy(kind, seed, nodes):
    more = {} if kind == "a launch in rounds" else {"nodes": nodes}
    assert contradictions(noisy_records.KINDS[kind](np.random.default_rng(seed), **more)) == ()


@pytest.mark.slow
@pytest.mark.parametrize("kind", noisy_records.KINDS)
def test_of_random_single_edits_by_more_than_5_percent_95_in_100_are_found(kind):
    rng = np.random.default_rng(20)
    run = noisy_records.KINDS[kind](rng)
    edits = [made for field in record_edits.MADE_FROM for _ in range(8) if (made := record_edits.edit(run, field, rng))]
    assert len(edits) >= 8 * 7
    assert sum(map(result, edits)) >= 0.95 * len(edits)


@pytest.mark.parametrize("name", record_edits.COPIES)
def test_what_was_measured_once_and_stands_there_twice_is_found(name):
    rng = np.random.default_rng(4)
    made = [record_edits.COPIES[name](make(rng), rng) for make in noisy_records.KINDS.values()]
    copies = [one for one in made if one]
    assert copies
    assert all(map(result, copies))


@pytest.mark.parametrize("name", ["one loss", "epochs: train_accuracy", "peak_memory_bytes"])
def test_what_nothing_else_in_a_record_tells_cannot_be_found(name):
    rng = np.random.default_rng(1)
    (field,) = [field for field in record_edits.NOT_REDUNDANT if field.name == name]
    assert not result(record_edits.edit(noisy_records.epochs(rng), field, rng))


def test_of_each_check_the_widest_contradiction_is_reported():
    run = make_record(nodes=3, steps=10)
    run.ranks[1].step_times_s.pop()
    run.ranks[2].step_times_s = run.ranks[2].step_times_s[:5]
    (one,) = [one for one in contradictions(run) if one.rule == "step_counts"]
    assert (one.stated, one.follows, one.off) == ("rank 2: 5 step_times_s", "rank 0: 10 (and 1 more such)", -0.5)
