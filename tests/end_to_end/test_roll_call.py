"""Hosts whose copies of the kit differ: a run on them stops before anything is timed."""

import sys
from pathlib import Path

import pytest

from tests.helpers.kit import QUICK, ROOT, records

pytestmark = pytest.mark.end_to_end

ARGUMENTS = ("experiment=weak_scaling", *QUICK)
BY_HAND = ("train.launch.start.gloo", "--ranks", "2", "--hosts", "n1:1,n2:1", "--", sys.executable, "-m", "train")


@pytest.fixture
def another_file(cluster) -> str:
    """A file of conf/ that has another content on n2."""
    name = "conf/measure/report.yaml"
    changed = cluster.folder / "report.yaml"
    changed.write_text(f"{(ROOT / name).read_text()}# changed\n")
    assert cluster.on("n2", "mount", "--bind", str(changed), str(ROOT / name)).returncode == 0
    yield name
    cluster.on("n2", "umount", str(ROOT / name))


@pytest.mark.parametrize(
    ("command", "than"),
    [
        ((*BY_HAND, "nodes=2"), "rank 0 (n1)"),
        (("train.launch", "launcher=ssh", "launcher.hosts=[n1,n2]", "nodes=2", "--only=tiny-nodes2"), "the launcher"),
    ],
    ids=["by_hand", "launcher"],
)
def test_a_host_with_another_copy_of_the_kit_is_named_with_the_file(
    cluster, results: Path, another_file, command, than
):
    done = cluster.on("n0", sys.executable, "-m", *command, *ARGUMENTS, f"results={results}")
    assert done.returncode != 0, done.stdout
    (record,) = records(results)
    assert record.status == "failed"
    assert record.failure.reason.startswith(f"rank 1 (n2): other files than {than}: {another_file}.")
    assert not any("timed" in rank.phases_s for rank in record.ranks)
