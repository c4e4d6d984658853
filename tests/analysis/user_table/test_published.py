"""Tables as their authors published them, each against what a person reads in it."""

from pathlib import Path

import pytest

from analysis.user_table import table

FOLDER = Path(__file__).with_name("published")


def read(name):
    return table.read(FOLDER / name)


def column(runs, name):
    return runs[name].tolist()


def test_units_in_headers_and_in_cells():
    runs = read("a16_resnet18.md").runs
    assert column(runs, "ranks") == [1, 2, 4, 1, 2, 4]
    assert column(runs, "batch_per_rank") == [512] * 3 + [1024] * 3
    assert column(runs, "images_per_s") == [5643, 8139, 12342, 6125, 9845, 15108]
    assert column(runs, "speedup") == [1, 1.44, 2.19, 1, 1.61, 2.47]
    assert column(runs, "efficiency") == pytest.approx([1, 0.72, 0.55, 1, 0.8, 0.62])


def test_nodes_replicas_and_step_times():
    runs = read("adaptdl_imagenet.csv").runs
    assert len(runs) == 18
    last = runs.iloc[-1]
    assert (last["nodes"], last["ranks_per_node"], last["ranks"], last["batch_per_rank"]) == (16, 4, 64, 200)
    assert last["images_per_s"] == pytest.approx(200 * 64 / 1.0868985652923584)


def test_two_rows_of_headers_in_aligned_text():
    runs = read("bsc_lab11.txt").runs
    assert column(runs, "ranks") == [1, 2, 4, 8, 16, 32]
    assert column(runs, "init_s") == [68, 142, 75, 110, 110, 111]
    assert column(runs, "wall_s") == [163, 93, 47, 30, 19, 14]
    assert column(runs, "job_s") == [231, 235, 122, 140, 129, 125]
    assert column(runs, "speedup") == [1, 1.72, 3.47, 5.43, 8.58, 11.64]


def test_two_precisions_side_by_side():
    found = read("dle_gnmt.md")
    assert column(found.runs, "setting") == ["TF32"] * 3 + ["Mixed precision"] * 3
    assert column(found.runs, "images_per_s") == [83214, 278576, 519952, 140909, 463144, 822024]
    assert column(found.runs, "speedup") == [1, 3.348, 6.248, 1, 3.287, 5.834]
    assert set(found.runs["work"]) == {"tokens"}
    assert any("its speedup says so" in line for line in found.interpretation)


def test_lists_of_devices_beside_their_count():
    runs = read("keras_7gforce.tsv").runs
    assert column(runs, "ranks") == [1, 1, 1, 1, 2, 2, 3, 3, 4, 5, 6, 2, 2]
    assert set(runs["setting"]) == {"nccl TRUE", "nccl FALSE"}
    assert runs["images_per_s"].iloc[-1] == 9416.75


def test_units_in_cells_alone():
    runs = read("v100_units.md").runs
    assert column(runs, "images_per_s") == [332, 583, 818]
