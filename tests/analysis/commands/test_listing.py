import pytest

from analysis.__main__ import main
from analysis.figures import registry

pytestmark = pytest.mark.slow


def test_list_shows_every_figure_with_its_points(results, capsys):
    results.add(nodes=1)
    assert main(["list", "--results", str(results.folder)]) == 0
    printed = capsys.readouterr().out
    assert all(id in printed for id in registry.figures(results.table()))
    assert "own-weak-scaling-throughput" in printed
