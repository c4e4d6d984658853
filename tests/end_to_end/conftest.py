from collections.abc import Iterator

import pytest
import simcluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[simcluster.Cluster]:
    """Four hosts of one core each, with ssh and Slurm; skips where this machine cannot make them."""
    if reason := simcluster.missing():
        pytest.skip(reason)
    with simcluster.Cluster(tmp_path_factory.mktemp("shared"), hosts=4) as made:
        yield made
