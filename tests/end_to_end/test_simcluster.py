"""The simulated hosts of other tests end with all their processes."""

import pytest

from tests.helpers import shell, simcluster
from tests.helpers.kit import TIMEOUT_S

pytestmark = pytest.mark.end_to_end


def test_a_cluster_ends_with_all_its_processes(tmp_path):
    if reason := simcluster.missing():
        pytest.skip(reason)
    with simcluster.Cluster(tmp_path, hosts=1, environment=shell.ENVIRONMENT) as cluster:
        sleeper = cluster.popen("n1", "sleep", "1000")
    assert sleeper.wait(timeout=TIMEOUT_S) != 0
