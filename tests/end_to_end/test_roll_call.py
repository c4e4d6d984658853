"""Hosts whose copies of the kit differ: a run on them stops before anything is timed."""

import sys
from pathlib import Path

import pytest

from tests.helpers.kit import QUICK, ROOT, records

pytestmark = pytest.mark.end_to_end

ARGUMENTS = ("experiment=weak_scaling", *QUICK)


@pytest.fixture
def another_file(cluster) -> str:
    """A file of conf/ that has another content on n2."""
    name = "conf/measure/report.yaml"
    changed = cluster.folder / "report.yaml"
    changed.write_text(f"{(ROOT / name).read_text()}# changed\n")
    assert cluster.on("n2", "mount", "--bind", str(changed), str(ROOT / name)).returncode == 0
    yield name
    cluster.on("n2", "umount", str(ROOT / name))


def test_a_host_with_another_copy_of_the_kit_is_named_with_the_file(cluster, results: Path, another_file):
    asked = ("launcher=ssh", "launcher.hosts=[n1,n2]", "nodes=2", "--only=tiny-nodes2")
    done = cluster.on("n0", sys.executable, "-m", "train.launch", *ARGUMENTS, *asked, f"results={results}")
    assert done.returncode != 0, done.stdout
    (record,) = records(results)
    assert record.status == "failed"
    assert record.failure.reason.startswith(f"rank 1 (n2): other files than the launcher: {another_file}.")
    assert not any("timed" in rank.phases_s for rank in record.ranks)
