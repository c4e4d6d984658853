import json

import pytest

from analysis.user_table import table
from train.record import logs


def read(tmp_path, text, name="log.txt"):
    (tmp_path / name).write_text(text)
    return table.read(tmp_path / name).runs


HOROVOD = """Model: {model}
Batch size: {batch}
Number of GPUs: {ranks}
Running warmup...
Iter #0: 1785.8 img/sec per GPU
Img/sec per GPU: {rate} +-3.1
Total img/sec on {ranks} GPU(s): {total} +-25.0
"""


def test_horovods_synthetic_benchmarks_one_file_a_run(tmp_path):
    for ranks, rate, total in ((1, 1800.0, 1800.0), (8, 1785.2, 14281.2)):
        text = HOROVOD.format(model="resnet50", batch=96, ranks=ranks, rate=rate, total=total)
        (tmp_path / f"run-{ranks}.txt").write_text(f"NCCL version 2.20.5\n{text}")
    runs = table.read(tmp_path).runs
    assert runs["ranks"].tolist() == [1, 8]
    assert runs["images_per_s"].tolist() == [1800.0, 14281.2]
    assert runs["low"].tolist() == pytest.approx([1775, 14256.2])
    assert runs["batch_per_rank"].tolist() == [96, 96]
    assert set(runs["model"]) == {"resnet50"}
    assert runs["place"][1] == "run-8.txt, line 8"


def test_tf_cnn_benchmarks_several_runs_in_one_file(tmp_path):
    text = "".join(
        f"Model:       inception3\nBatch size:  {32 * n} global\n             32 per device\n"
        f"Devices:     [{', '.join(repr(f'/gpu:{i}') for i in range(n))}]\n"
        f"10\timages/sec: 48.9 +/- 0.6 (jitter = 1.7)\t6.454\ntotal images/sec: {rate}\n"
        for n, rate in ((1, 47.49), (2, 94.72))
    )
    runs = read(tmp_path, text)
    assert runs["ranks"].tolist() == [1, 2]
    assert runs["images_per_s"].tolist() == [47.49, 94.72]
    assert runs["batch_per_rank"].tolist() == [32, 32]
    assert runs["line"].tolist() == [6, 12]


def test_tf_cnn_benchmarks_with_horovod_prints_the_total_once_a_rank(tmp_path):
    text = "".join(
        f"mpirun -np {n} -H localhost:{n} python tf_cnn_benchmarks.py --model resnet101 --batch_size 64\n"
        + f"100\timages/sec: 147.9 +/- 0.0 (jitter = 0.3)\t9.0\ntotal images/sec: {rate}\n" * n
        for n, rate in ((1, 204.75), (8, 1188.51))
    )
    runs = read(tmp_path, text)
    assert runs["ranks"].tolist() == [1, 8]
    assert runs["images_per_s"].tolist() == [204.75, 1188.51]
    assert runs["batch_per_rank"].tolist() == [64, 64]
    assert set(runs["model"]) == {"resnet101"}


def test_devices_of_horovod_are_those_of_all_ranks(tmp_path):
    text = (
        "mpirun -np 2 -H a:1,b:1\nModel:       resnet50\nBatch size:  64 global\n             32 per device\n"
        "Devices:     ['horovod/gpu:0', 'horovod/gpu:1']\ntotal images/sec: 94.72\n"
    )
    assert read(tmp_path, text)["ranks"].tolist() == [2]


def test_progress_lines_of_keras_without_their_first_epoch(tmp_path):
    text = "".join(
        f"Epoch {number}/3\n 60/125 [====>....] - ETA: 3s\r"
        f"125/125 [==============================] - {s}s {ms}ms/step\n"
        for number, (s, ms) in enumerate([(12, 96), (6, 48), (8, 64)], 1)
    )
    (run,) = read(tmp_path, text, "np4.log").to_dict("records")
    assert (run["ranks"], run["epoch_s"], run["step_s"], run["n"]) == (4, 7, pytest.approx(0.056), 2)


def test_mlperf_logs(tmp_path):
    events = {
        "submission_benchmark": ("resnet", 1000), "submission_platform": ("2xDGX", 1000),
        "global_batch_size": (3264, 1000), "run_start": (None, 2000), "epoch_start": (None, 2000),
        "epoch_stop": (None, 42000), "run_stop": (None, 82500),
    }  # fmt: skip
    lines = [json.dumps({"key": key, "value": value, "time_ms": ms}) for key, (value, ms) in events.items()]
    (run,) = read(tmp_path, "".join(f"0: :::MLLOG {line}\n" for line in lines)).to_dict("records")
    assert (run["model"], run["ranks"], run["wall_s"], run["epoch_s"]) == ("resnet", 2, 80.5, 40)


@pytest.mark.parametrize("text", ["GPUs,images/s\n1,2\n", "just words\n", ""])
def test_another_text_is_no_log(text):
    assert logs.rows(text, "t") == ("", [])
