"""The simulated hosts of other tests are separate, share one folder, and end with all their processes."""

import pytest

from tests.helpers import shell, simcluster
from tests.helpers.kit import TIMEOUT_S, wait_for

pytestmark = pytest.mark.end_to_end


def test_hosts_share_a_folder_and_nothing_else(cluster):
    connected = cluster.on("n1", "ssh", "n2", "hostname")
    assert (connected.returncode, connected.stdout.split()) == (0, ["n2"])
    cluster.on("n1", "touch", f"{cluster.folder}/shared", "/tmp/own")
    assert cluster.on("n2", "ls", f"{cluster.folder}/shared").returncode == 0
    assert cluster.on("n2", "ls", "/tmp/own").returncode != 0
    sleeper = cluster.popen("n1", "sleep", "1000")
    wait_for(lambda: cluster.on("n1", "pgrep", "-x", "sleep").returncode == 0)
    assert cluster.on("n2", "pgrep", "-x", "sleep").returncode == 1
    sleeper.kill()
    wait_for(lambda: cluster.on("n1", "pgrep", "-x", "sleep").returncode == 1)


def test_a_cluster_ends_with_all_its_processes(tmp_path):
    if reason := simcluster.missing():
        pytest.skip(reason)
    cluster = simcluster.Cluster(tmp_path, hosts=1, environment=shell.ENVIRONMENT)
    cluster.start()
    sleeper = cluster.popen("n1", "sleep", "1000")
    cluster.stop()
    assert sleeper.wait(timeout=TIMEOUT_S) != 0
