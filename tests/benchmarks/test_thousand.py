"""The benchmark of a thousand ranks, with a few."""

import pytest

from benchmarks import thousand_record
from record import run_files as files
from record import schema as record


@pytest.mark.slow
@pytest.mark.parametrize("computes", [False, True])
def test_a_record_is_made_of_the_parts_and_the_analysis_trusts_it(tmp_path, computes):
    planned, stages = thousand_record.example(8, 30, computes), thousand_record.Stages()
    home = files.point_folder(tmp_path, planned.experiment, planned.point, planned.config_hash)
    thousand_record.profile_record(stages, home, planned)
    run = record.load(record.find(tmp_path)[0])
    assert (len(run.ranks), len(run.ranks[7].step_times_s), run.ranks[7].node) == (8, 30, 1)
    assert len(run.ranks[7].compute_times_s) == (30 if computes else 0)
    assert {"parts of all ranks, next look", "audited", "its figures drawn"} <= {row[0] for row in stages.rows}
