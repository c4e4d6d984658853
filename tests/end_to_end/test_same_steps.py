"""The small form of the kit's proof that distributed training is right: two ranks against one, in ten steps."""

import json
from pathlib import Path

import pytest

from analysis import claims
from analysis.study import Study
from analysis.table.checks import faults
from tests.helpers.kit import LAUNCH, analyse, records, succeed

pytestmark = pytest.mark.end_to_end

SAME_STEPS = ("nodes1-same-steps", "nodes2-same-steps", "nodes2-same-steps-mwms", "nodes2-same-steps-ps-cpu")
OTHER_STEPS = "nodes2-batch-per-rank-kept"  # a claim needs a counterexample


def test_two_ranks_make_the_steps_of_one_and_the_claim_is_judged_by_it(tmp_path: Path):
    steps = ("nodes=2", "measure.timed_steps=10", "tracking=none", f"results={tmp_path}")
    overrides = ("experiment=equivalence", f"--only={','.join((*SAME_STEPS, OTHER_STEPS))}", *steps)
    succeed(*LAUNCH, *overrides)
    [mwms] = [record for record in records(tmp_path) if record.arm == "same-steps-mwms"]
    assert mwms.weights_differ is False
    assert len({*json.loads(mwms.environment.variables["TF_CONFIG"])["cluster"]["worker"]}) == 2
    assert mwms.environment.variables["TF_ENABLE_ONEDNN_OPTS"] == "1"
    assert [transfer.what for transfer in mwms.ranks[1].transfers] == ["tcp_ring"]
    assert faults(mwms) == []
    output = analyse("summary", "equivalence", "--results", str(tmp_path))
    agree = [line.split()[0] for line in output.splitlines() if line.endswith("the same steps: agree")]
    assert agree == ["horovod", "mwms", "ps_cpu"]
    assert output.count("other steps: differ") == 1
    assert "Does averaging gradients lose precision? no" in output
    [claim] = [claim for claim in claims.read() if claim.id == "004-averaging-loses-precision"]
    [judged] = claims.judge([claim], Study(tmp_path))
    assert judged.verdict == "contradicted"
