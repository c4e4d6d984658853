import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import simcluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[simcluster.Cluster]:
    """Four hosts of one core each, with ssh and Slurm; skips where this machine cannot make them."""
    if reason := simcluster.missing():
        pytest.skip(reason)
    with simcluster.Cluster(tmp_path_factory.mktemp("shared"), hosts=4) as made:
        yield made


@pytest.fixture
def results(cluster: simcluster.Cluster, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A results folder that all hosts see."""
    folder = cluster.folder / request.node.name.partition("[")[0]
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
