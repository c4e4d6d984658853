"""Faults on real hosts: within how many seconds a job ends, what it says, and that nothing is left running."""

import shutil
import sys
import time
from pathlib import Path

import pytest
from kit import QUICK, records, wait_for

pytestmark = pytest.mark.end_to_end

LAUNCH = (sys.executable, "-m", "train.launch")
# A run that does not end by itself, and after it one that does.
LONG = ("nodes=2,1", "experiment=weak_scaling", "launcher=ssh", "launcher.hosts=[n1,n2]")


@pytest.fixture
def results(cluster, request):
    folder = Path(cluster.folder) / request.node.name
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def timed(results: Path) -> bool:
    return "phase timed" in "".join(path.read_text() for path in results.rglob("rank-1.log"))


def ranks(cluster, host: str) -> list[str]:
    return cluster.on(host, "pgrep", "-af", "python.* -m train .*--run-dir").stdout.splitlines()


def launch(cluster, results: Path, *overrides: str):
    """The launcher, once its ranks are in the timed window."""
    command = [*LAUNCH, *LONG, *QUICK, "measure.timed_steps=100000", f"results={results}", *overrides]
    child = cluster.popen("n0", *command)
    wait_for(lambda: timed(results), timeout=90)
    return child


def next_point_runs(child, results: Path, begin: float, within_s: float, cluster) -> None:
    """Wait until the first point has failed and the next one has begun, and print how long that took; then end all."""
    wait_for(lambda: list(results.rglob("tiny-nodes1/*/r0/rank-0.log")), timeout=within_s - (time.monotonic() - begin))
    print(f"the next point began after {time.monotonic() - begin:.1f} s")
    cluster.on("n0", "pkill", "-TERM", "-f", f"train.launch .*results={results}")
    child.communicate(timeout=60)


def failed(results: Path):
    [record] = [record for record in records(results) if record.point == "tiny-nodes2"]
    assert record.status == "failed"
    return record.failure


def test_a_killed_rank_on_another_host_is_named_within_30_s(cluster, results):
    child = launch(cluster, results)
    begin = time.monotonic()
    cluster.on("n2", "kill", "-9", *(line.split()[0] for line in ranks(cluster, "n2")))
    next_point_runs(child, results, begin, within_s=30, cluster=cluster)
    failure = failed(results)
    assert (failure.rank, failure.host) == (1, "n2")
    assert "killed by a signal" in failure.reason
    wait_for(lambda: not ranks(cluster, "n1") + ranks(cluster, "n2"), timeout=5)


def test_a_host_whose_link_goes_silent_is_given_up_within_60_s(cluster, results):
    child = launch(cluster, results)
    begin = time.monotonic()
    cluster.link("n2", up=False)
    try:
        next_point_runs(child, results, begin, within_s=60, cluster=cluster)
    finally:
        cluster.link("n2", up=True)
    assert failed(results).host == "n2"
    wait_for(lambda: not ranks(cluster, "n1"), timeout=5)


def test_a_host_that_dies_is_given_up_within_60_s(cluster, results):
    child = launch(cluster, results)
    begin = time.monotonic()
    cluster.crash("n2")
    try:
        next_point_runs(child, results, begin, within_s=60, cluster=cluster)
    finally:
        cluster.boot("n2")
    assert failed(results).host == "n2"
    wait_for(lambda: not ranks(cluster, "n1"), timeout=5)


def test_elastic_training_goes_on_without_a_dead_host_and_takes_it_in_again(cluster, results):
    elastic = ("distribution.elastic=true", "launcher=ssh", "launcher.hosts=[n1,n2]", "nodes=2", "measure.epochs=60")
    child = cluster.popen(
        "n0",
        *(*LAUNCH, "--only", "nodes2", "experiment=accuracy_digits", *elastic, "tracking=none", f"results={results}"),
    )

    def said(words: str) -> int:
        return "".join(path.read_text() for path in results.rglob("rank-*.log")).count(words)

    wait_for(lambda: said("phase checkpoint") >= 4, timeout=120)
    begin = time.monotonic()
    cluster.crash("n2")
    wait_for(lambda: said("lost n2: going on with 1 ranks"), timeout=30)
    print(f"went on after {time.monotonic() - begin:.1f} s")
    begin = time.monotonic()
    cluster.boot("n2")
    wait_for(lambda: said("n2 came: going on with 2 ranks"), timeout=150)
    print(f"taken in after {time.monotonic() - begin:.1f} s")
    output, _ = child.communicate(timeout=240)
    assert child.returncode == 0, output
    [record] = records(results)
    assert [(resize.ranks_before, resize.ranks_after, resize.cause) for resize in record.resizes] == [
        (2, 1, "lost n2"),
        (1, 2, "n2 came"),
    ]
    assert [rank.host for rank in record.ranks] == ["n1", "n2"]
    assert len(record.epochs) == 60
    assert record.epochs[-1].validation_accuracy > 0.95
