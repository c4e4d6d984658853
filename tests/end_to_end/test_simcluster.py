"""The simulated hosts of other tests are separate, and joined by ssh, Slurm and one shared folder."""

import time

import pytest

from tests.helpers import shell, simcluster
from tests.helpers.kit import TIMEOUT_S, wait_for

pytestmark = pytest.mark.end_to_end


def outputs(command) -> list[str]:
    """Return the words that a finished command has printed; assert that it succeeded."""
    assert command.returncode == 0, command.stdout
    return command.stdout.split()


def test_hosts_share_a_folder_and_nothing_else(cluster):
    assert outputs(cluster.on("n1", "ssh", "n2", "hostname")) == ["n2"]
    cluster.on("n1", "touch", f"{cluster.folder}/shared", "/tmp/own")
    assert cluster.on("n2", "ls", f"{cluster.folder}/shared").returncode == 0
    assert cluster.on("n2", "ls", "/tmp/own").returncode != 0
    sleeper = cluster.popen("n1", "sleep", "1000")
    wait_for(lambda: cluster.on("n1", "pgrep", "-x", "sleep").returncode == 0)
    assert cluster.on("n2", "pgrep", "-x", "sleep").returncode == 1
    sleeper.kill()
    wait_for(lambda: cluster.on("n1", "pgrep", "-x", "sleep").returncode == 1)


def test_a_slow_link_is_as_slow_as_requested(cluster):
    if reason := simcluster.rate_missing():
        pytest.skip(reason)

    def seconds() -> float:
        begin = time.monotonic()
        copy = cluster.on("n1", "sh", "-c", "head -c 5000000 /dev/zero | ssh n2 'cat >/dev/null'")
        assert copy.returncode == 0
        return time.monotonic() - begin

    cluster.rate(10)
    try:
        slow = seconds()
    finally:
        cluster.rate(None)
    least_s = 5e6 * 8 / 10e6  # 4 s for 40 Mbit
    assert slow > least_s
    wait_for(lambda: seconds() < least_s)  # on a busy machine the first copies can be slow


def test_a_cluster_ends_with_all_its_processes(tmp_path):
    if reason := simcluster.missing():
        pytest.skip(reason)
    cluster = simcluster.Cluster(tmp_path, hosts=1, environment=shell.ENVIRONMENT)
    cluster.start()
    sleeper = cluster.popen("n1", "sleep", "1000")
    cluster.stop()
    assert sleeper.wait(timeout=TIMEOUT_S) != 0
