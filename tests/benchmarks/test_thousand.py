"""The benchmarks of a thousand ranks, with a few."""

from dataclasses import replace

import pytest

from benchmarks import thousand_ranks, thousand_record
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


def test_ranks_that_agree_and_one_that_does_not():
    job = thousand_ranks.job_of(8)
    assert thousand_ranks.hold(job) < 1
    last = job.present[-1]
    _, output = thousand_ranks.refuse(job, replace(last, host=replace(last.host, host="node0000")))
    assert "there are 5 on node0000, 3 on node0001" in output
    _, output = thousand_ranks.refuse(job, replace(last, source_digest="0" * 12))
    assert output.startswith("rank 7 (node0001): other files than rank 0 (node0000): train/worker.py")


@pytest.mark.slow
def test_processes_meet():
    assert thousand_ranks.meet_rank_groups(6) < 60
    assert thousand_ranks.meet_as_srun_does(8) < 60
