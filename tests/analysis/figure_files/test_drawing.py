import hashlib

import pytest

from analysis import registry
from analysis.figure_files import drawing

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("id", ["000-explained", "003-efficiency", "own-weak-scaling-efficiency"])
def test_the_same_input_gives_the_same_bytes(id, results, tmp_path):
    for nodes in (1, 2):
        results.add(nodes=nodes)
    study = results.study()
    entry = registry.figures(study.local)[id]
    digests = []
    for folder in (tmp_path / "a", tmp_path / "b"):
        folder.mkdir()
        drawing.save(entry, entry.points(study), folder)
        digests.append({path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()})
    assert digests[0] == digests[1]
    assert set(digests[0]) == {f"{id}.pdf", f"{id}.png", f"{id}.svg"}


def test_a_caption_says_where_local_points_come_from(results):
    results.add(nodes=1)
    entry = registry.figures(results.table())["001-figure-5"]
    text = drawing.caption(entry, entry.points(results.study()))
    assert "Local points: 1 run on AMD EPYC 9B45, 4 cores, 2026-11-20." in text
