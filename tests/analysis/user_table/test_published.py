"""Tables as their authors published them, each against what a person reads in it (published/README.md)."""

from pathlib import Path

import pytest

from analysis import TableError
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


# One curve of each table: its file, words of its setting, its ranks, what is measured, the printed values.
CURVES = [
    ("mlbench_clusters.md", "DDP, Imagenet data", "puhti", [1, 4, 8], "images_per_s", [328.21, 1217.30, 2431.23]),
    ("dlperf_paddle.md", "with dali", "", [1, 4, 8, 16, 32], "images_per_s",
     [887.17, 3598.0, 6862.17, 6018.46, 11617.57]),
    ("dlperf_paddle.md", "with dali", "", [1, 4, 8, 16, 32], "batch_per_rank", [196] * 5),
    ("dlperf_paddle.md", "with dali", "", [1, 4, 8, 16, 32], "speedup", [1, 4.06, 7.73, 6.78, 13.1]),
    ("dlperf_frameworks.md", "FP32, batch size = 128 PyTorch", "", [1, 8, 16, 32], "images_per_s",
     [348.62, 2632.93, 5115.4, 10021.29]),
    ("dlperf_frameworks.md", "w/DALI", "", [1, 8, 16, 32], "batch_per_rank", [196] * 4),
    ("dlperf_repeats.md", "Finial", "", [1, 8, 16, 32], "images_per_s", [384.85, 2969.45, 5906.55, 11711.18]),
    ("dle_ssd.md", "DGX-1 (8x V100 16GB) FP32", "", [1, 4, 8], "images_per_s", [107.22, 419.54, 840.35]),
    ("dle_ssd.md", "DGX-1 (8x V100 16GB) FP32", "", [1, 4, 8], "speedup", [1.0, 3.91, 7.83]),
    ("dle_ncf.md", "A100 40GB) TF32", "", [1, 8], "images_per_s", [22.59e6, 110.16e6]),
    ("dle_ncf.md", "A100 40GB) TF32", "", [1, 8], "batch_per_rank", [1048576, 131072]),
    ("dle_transformerxl.md", "Large model TF32", "", [1, 2, 4, 8], "images_per_s", [14497, 27304, 53756, 106651]),
    ("dle_bert.md", "mixed precision Sequence Length 512", "", [1, 4, 8], "images_per_s", [28.72, 109.96, 190.65]),
    ("dle_bert.md", "mixed precision Sequence Length 512", "", [1, 4, 8], "global_batch", [32768] * 3),
    ("bsc_omp_times.csv", "65536", "", [1, 2, 4, 8, 16, 32], "n", [200] * 6),
    ("bsc_omp_times.csv", "65536", "", [1, 2, 4, 8, 16, 32], "wall_s",
     [66.141e-6, 34.125e-6, 20.449e-6, 11.698e-6, 11.642e-6, 16.721e-6]),
    ("lfsr_workers.md", "", "", [1, 2, 4, 8], "wall_s", [1.3975, 0.5858, 0.8408, 1.5509]),
    ("lfsr_workers.md", "", "", [1, 2, 4, 8], "efficiency", [1.051, 1.254, 0.437, 0.118]),
    ("pwscf.md", "", "", [2, 4, 8, 16, 32], "speedup", [1, 2.81, 3, 2.61, 2.61]),
    ("cellpose.md", "", "", [1, 2, 4, 6], "wall_s", [75.25, 95.96, 79.02, 95.92]),
    ("inference_nodes.md", "", "", [1, 2, 3], "images_per_s", [112.9, 229.0, 338.4]),
    ("inference_nodes.md", "", "", [1, 2, 3], "low", [112.4, 228.1, 337.3]),
    ("zip.md", "", "", [1, 2, 4, 8, 12, 16, 20], "wall_s", [0.836, 0.531, 0.299, 0.298, 0.279, 0.285, 0.287]),
    ("zip.md", "", "", [1, 2, 4, 8, 12, 16, 20], "images_per_s", [219e6, 345e6, 614e6, 616e6, 657e6, 643e6, 639e6]),
    ("qr_pi.md", "raspberry", "", [1, 2, 3, 4, 5, 6, 7, 10], "wall_s", [53, 32, 25, 22.5, 21.5, 20.9, 20.3, 21.1]),
    ("qr_pi.md", "jobs 100", "", [8, 20], "wall_s", [19, 85.6]),
    ("fenced.md", "", "", [8, 16, 32, 64], "images_per_s", [12456, 24234, 47123, 91567]),
    ("fenced.md", "", "", [8, 16, 32, 64], "batch_per_rank", [256] * 4),
    ("hunyuan.md", "FBCache + CP", "", [2, 4, 8], "wall_s", [1132.9, 718.15, 649.23]),
    ("t4.md", "", "", [1, 2, 2], "wall_s", [14 * 3600, 11 * 3600, 8.5 * 3600]),
    ("ddp_v100.md", "", "", [1, 4], "wall_s", [36 * 3600, 9 * 3600]),
    ("distilbert.md", "", "", [1, 4], "epoch_s", [180, 60]),
    ("circle_rope.md", "LoRA", "", [1, 4], "images_per_s", [2.5, 8]),
    ("keras_cifar10.csv", "nccl TRUE", "", [2, 2, 3, 3, 4, 5, 6], "images_per_s",
     [17183.4, 17438.76, 21825.34, 13376.63, 17232.97, 20651.11, 38547.11]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "setting", "machine", "ranks", "quantity", "values"), CURVES)
def test_one_curve_of_each_table(name, setting, machine, ranks, quantity, values):
    runs = read(name).runs
    if setting:
        runs = runs[runs["setting"].str.contains(setting, regex=False)]
    if machine:
        runs = runs[runs["machine"].eq(machine)]
    if name == "keras_cifar10.csv":
        runs = runs[runs["batch_per_rank"].eq(4096)]
    assert column(runs, "ranks")[: len(ranks)] == ranks
    assert column(runs, quantity)[: len(ranks)] == pytest.approx(values)


def test_a_table_without_headers_is_read_where_the_user_says_what_its_columns_are():
    path = FOLDER / "bsc_no_headers.txt"
    with pytest.raises(TableError, match="without headers"):
        table.read(path)
    runs = table.read(path, "1=ranks,2=wall_s,3=model").runs
    assert column(runs, "ranks") == [4, 32, 8, 2, 1, 16]
    assert column(runs, "wall_s")[0] == 205.21682715415955
