"""Known logs give one row a run, with the names of the kit."""

import json

import pytest

from analysis.user_table import table_contract
from analysis.user_table.answers import Question
from common import logs

HOROVOD = """NCCL version 2.20.5
Model: resnet50
Batch size: 96
Number of GPUs: {0}
Running warmup...
Iter #0: 1785.8 img/sec per GPU
Img/sec per GPU: {1} +-3.1
Total img/sec on {0} GPU(s): {2} +-25.0
"""
CNN = """Model:       inception3
Batch size:  {1} global
             32 per device
Devices:     [{2}]
10\timages/sec: 48.9 +/- 0.6 (jitter = 1.7)\t6.454
total images/sec: {0}
"""
CNN_HOROVOD = "mpirun -np {0} -H localhost:{0} python tf_cnn_benchmarks.py --model resnet101 --batch_size 64\n"
CNN_RANK = "100\timages/sec: 147.9 +/- 0.0 (jitter = 0.3)\t9.0\ntotal images/sec: {0}\n"  # printed by each rank
TWO_RANKS = "mpirun -np 2 -H a:1,b:1\n" + CNN.format(94.72, 64, "'horovod/gpu:0', 'horovod/gpu:1'")
EPOCH = "Epoch {0}/3\n 60/125 [====>....] - ETA: 3s\r125/125 [==============================] - {1}s {2}ms/step\n"
LAMMPS = """Loop time of 1.98 on {0} procs for 100 steps with 4000 atoms

Performance: 21835.6 tau/day, {1} timesteps/s, 202.1 katom-step/s
99.8% CPU use with {0} MPI tasks x no OpenMP threads
"""
GROMACS = (
    "Using {0} MPI processes\nUsing 8 OpenMP threads per MPI process\n   (ns/day) (hour/ns)\nPerformance: {1} 7.697\n"
)
HPCG = "Machine Summary::Distributed Processes={0}\nFinal Summary::HPCG result is VALID with a GFLOP/s rating of={1}\n"
NANOGPT = "tokens per iteration will be: 12,288\n" + "".join(
    f"iter {step}: loss 4.2874, time {ms}ms, mfu -100.00%\n" for step, ms in enumerate((1210.77, 100, 80, 120))
)
MLPERF = {
    "submission_benchmark": ("resnet", 1000), "submission_platform": ("16xXE8545x4A100", 1000),
    "global_batch_size": (3264, 1000), "run_start": (None, 2000), "epoch_start": (None, 2000),
    "epoch_stop": (None, 42000), "run_stop": (None, 82500),
}  # fmt: skip
SYSTEM = {
    "number_of_nodes": "16", "accelerators_per_node": "4", "accelerator_model_name": "NVIDIA A100-SXM-40GB",
    "submitter": "Dell", "division": "closed",
}  # fmt: skip
MLLOG = [json.dumps({"key": key, "value": value, "time_ms": ms}) for key, (value, ms) in MLPERF.items()]
# Files and the rows that they give.
LOGS = {
    "Horovod, one file a run": (
        {"run-1.txt": HOROVOD.format(1, 1800.0, 1800.0), "run-8.txt": HOROVOD.format(8, 1785.2, 14281.2)},
        {"ranks": [1, 8], "images_per_s": [1800.0, 14281.2], "batch_per_rank": [96] * 2,
         "model": ["resnet50"] * 2, "place": ["run-1.txt, line 8", "run-8.txt, line 8"]}),
    "tf_cnn_benchmarks, several runs in one file": (
        {"log.txt": CNN.format(47.49, 32, "'/gpu:0'") + CNN.format(94.72, 64, "'/gpu:0', '/gpu:1'")},
        {"ranks": [1, 2], "images_per_s": [47.49, 94.72], "batch_per_rank": [32] * 2, "line": [6, 12]}),
    "tf_cnn_benchmarks with Horovod, the total once a rank": (
        {"log.txt": CNN_HOROVOD.format(1) + CNN_RANK.format(204.75) + CNN_HOROVOD.format(8)
         + CNN_RANK.format(1188.51) * 8},
        {"ranks": [1, 8], "images_per_s": [204.75, 1188.51], "batch_per_rank": [64] * 2, "model": ["resnet101"] * 2}),
    "devices of Horovod are those of all ranks": ({"log.txt": TWO_RANKS}, {"ranks": [2], "images_per_s": [94.72]}),
    "Keras, without the first epoch and an evaluation": (
        {"run.log": "hvd.size: 4\n" + EPOCH.format(1, 12, 96) + EPOCH.format(2, 6, 48) + EPOCH.format(3, 8, 64)
         + "9/9 [====] - 90s 9s/step\n"},
        {"ranks": [4], "epoch_s": [7], "step_s": [0.056], "repeats": [2]}),
    "MLPerf, whose name of the system counts nodes": (
        {"results/16xXE8545x4A100/resnet/result_0.txt": "".join(f"0: :::MLLOG {line}\n" for line in MLLOG),
         "systems/16xXE8545x4A100.json": json.dumps(SYSTEM)},
        {"model": ["resnet"], "nodes": [16], "ranks": [64], "wall_s": [80.5], "epoch_s": [40],
         "gpu": ["NVIDIA A100-SXM-40GB"]}),
    "LAMMPS, several runs in one file": (
        {"log.lammps": LAMMPS.format(1, 14.5) + LAMMPS.format(4, 50.5)},
        {"ranks": [1, 4], "images_per_s": [14.5, 50.5], "work": ["timesteps"] * 2, "line": [3, 7]}),
    "GROMACS, one file a run": (
        {"1.log": GROMACS.format(1, 43.2), "2.log": GROMACS.format(2, 86.4)},
        {"ranks": [1, 2], "images_per_s": [0.0005, 0.001], "work": ["ns"] * 2}),  # 43.2 ns/day in 86,400 s
    "HPCG": ({"hpcg.txt": HPCG.format(4, 2.5)}, {"ranks": [4], "images_per_s": [2.5], "work": ["GFLOP"]}),
    "nanoGPT, without the first step": (
        {"log": "world size: 2\n" + NANOGPT}, {"ranks": [2], "images_per_s": [122880], "work": ["tokens"]}),
}  # fmt: skip


@pytest.mark.parametrize(("texts", "expected"), LOGS.values(), ids=LOGS)
def test_a_known_log(tmp_path, texts, expected):
    for name, text in texts.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    runs = table_contract.read_table(tmp_path).runs
    for name, values in expected.items():
        assert runs[name].tolist() == (values if isinstance(values[0], str) else pytest.approx(values)), name


@pytest.mark.parametrize("text", ["GPUs,images/s\n1,2\n", "just words\n", ""])
def test_another_text_is_no_log(text):
    assert logs.read_log(text, "t") == logs.Log()


@pytest.mark.parametrize(
    "text", [EPOCH.format(1, 12, 96) * 2, "".join(f":::MLLOG {line}\n" for line in MLLOG), GROMACS[24:].format(0, 3.1)]
)
def test_ranks_that_a_log_does_not_state_are_asked_not_taken_out_of_a_name(tmp_path, text):
    (tmp_path / "np4.log").write_text(text)
    with pytest.raises(Question, match="does not state its number of ranks") as error:
        table_contract.read_table(tmp_path / "np4.log")
    assert error.value.answers == ["ranks=4"]
    assert table_contract.read_table(tmp_path / "np4.log", "ranks=8").runs["ranks"].tolist() == [8]
