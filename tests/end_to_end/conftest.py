import shutil
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.helpers import kit, shell, simcluster
from train.launch import cgroups


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the logs of launchers and ranks to the report of a failed test, because its folder will be removed."""
    report = yield
    folders = [item.funcargs[name] for name in ("results", "tmp_path") if name in item.funcargs]
    for log in [log for folder in folders for log in sorted(folder.rglob("*.log"))] if report.failed else []:
        lines = log.read_text(errors="replace").splitlines()
        report.sections.append((str(log), "\n".join(line[:300] for line in lines[-30:])))
    return report


@pytest.fixture(autouse=True)
def nothing_outlives_its_test() -> Iterator[None]:
    """End the processes that a failed test has left running."""
    yield
    kit.end_started()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[simcluster.Cluster]:
    """Four simulated hosts with one core each, ssh and Slurm; skips if this machine cannot run them."""
    if reason := simcluster.missing():
        pytest.skip(reason)
    with simcluster.Cluster(tmp_path_factory.mktemp("shared"), hosts=4, environment=shell.ENVIRONMENT) as running:
        yield running


@pytest.fixture
def means() -> cgroups.QuotaMethod:
    """The means of CPU quotas on this machine; skips if there are none."""
    means = cgroups.quota_method()
    if isinstance(means, str):
        pytest.skip(means)
    return means


@pytest.fixture
def results(cluster: simcluster.Cluster, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A results folder that all hosts see."""
    folder = cluster.folder / request.node.name.partition("[")[0]
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
