import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.table.checks import contradictions
from benchmarks.faults import record_edits
from tests.helpers import noisy_records
from tests.helpers.run_records import make_record


def is_left_out(run):
    """Return whether the record is left out: it contradicts itself or cannot be read."""
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
def test_95_in_100_random_single_edits_by_more_than_5_percent_are_found(kind):
    rng = np.random.default_rng(20)
    run = noisy_records.KINDS[kind](rng)
    edits = [new for field in record_edits.MADE_FROM for _ in range(8) if (new := record_edits.edit(run, field, rng))]
    assert len(edits) >= 8 * 7
    assert sum(map(is_left_out, edits)) >= 0.95 * len(edits)


@pytest.mark.parametrize("name", record_edits.COPIES)
def test_a_measurement_that_was_copied_within_a_record_is_found(name):
    rng = np.random.default_rng(4)
    copies = [copy for make in noisy_records.KINDS.values() if (copy := record_edits.COPIES[name](make(rng), rng))]
    assert copies
    assert all(map(is_left_out, copies))


@pytest.mark.parametrize("name", ["one loss", "epochs: train_accuracy", "peak_memory_bytes"])
def test_an_edit_of_an_independent_value_cannot_be_found(name):
    rng = np.random.default_rng(1)
    (field,) = [field for field in record_edits.NOT_REDUNDANT if field.name == name]
    assert not is_left_out(record_edits.edit(noisy_records.epochs(rng), field, rng))


def test_each_check_reports_its_widest_contradiction():
    run = make_record(nodes=3, steps=10)
    run.ranks[1].step_times_s.pop()
    run.ranks[2].step_times_s = run.ranks[2].step_times_s[:5]
    (result,) = [result for result in contradictions(run) if result.rule == "step_counts"]
    assert (result.stated, result.follows) == ("rank 2: 5 step_times_s", "rank 0: 10 (and 1 more such)")
    assert result.off == -0.5
