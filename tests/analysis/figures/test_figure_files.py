import base64
import csv
import gzip
import io
import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from matplotlib.figure import Figure

from analysis.figures import FigureData, FigureEntry, figure_files, registry
from tests.helpers.drawn_figures import make_study
from tests.helpers.tidy_rows import row, table

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("id", ["000-explained", "own-weak-scaling-efficiency"])
def test_the_same_input_gives_the_same_bytes(id, results, tmp_path):
    for nodes in (1, 2):
        results.add(nodes=nodes)
    study = results.study()
    entry = registry.figures(study.local)[id]
    first, second = tmp_path / "a", tmp_path / "b"
    for folder in (first, second):
        figure_files.save(id, partial(entry.draw, entry.points(study)), folder)
    for suffix in ("pdf", "png", "svg"):
        assert (first / f"{id}.{suffix}").read_bytes() == (second / f"{id}.{suffix}").read_bytes()


def test_a_caption_says_where_local_points_come_from(results):
    results.add(nodes=1)
    entry = registry.figures(results.table())["001-figure-5"]
    text = figure_files.caption(entry, entry.points(results.study()))
    assert "Local points: 1 run on AMD EPYC 9B45, 4 cores, 2026-11-20." in text


def test_the_data_of_a_figure_are_its_rows_in_the_columns_that_have_a_value():
    published = table(row("images_per_s", 100.0, 1), row("images_per_s", 190.0, 2))
    points = FigureData(published, published.iloc[:0])
    text = figure_files.data_text(points)
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [(record["quantity"], float(record["value"]), record["ranks"]) for record in rows] == [
        ("images_per_s", 100.0, "1"), ("images_per_s", 190.0, "2"),
    ]  # fmt: skip
    assert all(any(record[name] for record in rows) for name in rows[0])
    kind, _, content = figure_files.data_link(points).partition(",")
    assert kind == "data:application/gzip;base64"
    assert gzip.decompress(base64.b64decode(content)).decode() == text


def test_without_a_row_there_are_no_data(tmp_path):
    published = table(row("images_per_s", 100.0, 1))
    empty = published.iloc[:0]
    assert figure_files.data_text(FigureData(empty, empty)) == figure_files.data_link(FigureData(empty, empty)) == ""
    entries = [FigureEntry("one", lambda _: None, published={}), FigureEntry("none", lambda _: None)]
    figure_files.write_data(entries, make_study(empty, published), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["one.csv"]


def test_as_many_processes_draw_as_there_are_cores_left(monkeypatch, tmp_path):
    """A batch system or a container may leave 4 of 128 cores."""
    sizes, drawn = [], []
    monkeypatch.setattr(os, "cpu_count", lambda: 128)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {4, 5, 6, 7})
    monkeypatch.setattr(
        figure_files, "ProcessPoolExecutor", lambda size=None, **_: sizes.append(size) or ThreadPoolExecutor(1)
    )
    published = table(row("images_per_s", 100.0, 1))
    entries = [FigureEntry(id, lambda _: Figure(figsize=(3, 0.5)), published={}) for id in ("a", "b")]
    figure_files.draw(entries, make_study(published.iloc[:0], published), tmp_path, drawn.append)
    assert (sizes, drawn, (tmp_path / "b.pdf").exists()) == ([4], ["a", "b"], True)
