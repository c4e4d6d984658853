import pytest

from analysis import TableError
from analysis.user_table import headers

HEADERS = {
    "ranks": (
        "GPUs", "num_gpus", "Number of workers", "np", "#GPUs", "No. of GPUs", "num_replicas", "World Size",
        "gpu_count", "Num. GPUs / DP Global Rank",
    ),
    "ranks_per_node": ("GPUs per node", "GPUs/Node"),
    "nodes": ("Machine Num", "# of Nodes"),
    "steps_per_rank": ("Steps", "iterations per GPU", "planned_steps_per_worker"),
    "batch_per_rank": ("Batch size / GPU", "local_bsz", "Per-GPU Batch"),
    "global_batch": ("Global batch size", "Effective batch size"),
    "batch": ("batch_size",),
    "wall_s": ("Training time [s]", "wall-clock (sec)", "Wall time [min]"),
    "init_s": ("Init time(s)",),
    "job_s": ("Total time(s)",),
    "epoch_s": ("Time per epoch (min)", "s/epoch"),
    "step_s": ("ms/step", "step_time"),
    "images_per_s_per_rank": ("img/sec/GPU", "examples_per_s_per_gpu", "Per GPU throughput"),
    "images_per_s": ("Global Throughput (img/s)", "Total images/sec"),
    "rate": ("Images/s", "tok/s", "throughput"),
    "steps_per_s": ("global_step/sec",),
    "speedup": ("Speedup (train)",),
    "efficiency": ("Scaling efficiency (%)",),
    "scaling": ("Strong Scaling - TF32",),
    "model": ("Network",),
    "setting": ("Experiment",),
    "n": ("Repeats",),
    "repeat": ("trial",),
    "low": ("lower",),
    "": (
        "colour", "Memory Usage", "Network (MB/s)", "Val Acc (5 epochs)", "sync_time", "Ideal speedup",
        "Throughput speedup (TF32 to Mixed precision)", "Speed-up with mixed precision", "time to accuracy",
        # costs and goals
        "$/Speedup", "Speedup Teórico", "Eficiencia Objetivo", "Target efficiency (%)",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("name", "header"), [(name, header) for name in HEADERS for header in HEADERS[name]])
def test_headers_as_people_write_them(name, header):
    assert headers.read(header).name == name


@pytest.mark.parametrize(
    ("header", "kind", "factor", "work"),
    [
        ("Training time [s]", "time", 1, ""),
        ("Wall time (min)", "time", 60, ""),
        ("train_ms", "time", 1e-3, ""),
        ("Time (hours)", "time", 3600, ""),
        ("Throughput (k tok/s)", "rate", 1000, "tokens"),
        ("images per minute", "rate", 1 / 60, "images"),
        ("Efficiency (%)", "share", 0.01, ""),
    ],
)
def test_units_in_headers(header, kind, factor, work):
    unit = headers.read(header).unit
    assert (unit.kind, unit.work, unit.factor) == (kind, work, pytest.approx(factor))


def test_what_says_neither_quantity_nor_unit_is_a_label():
    assert headers.read("Throughput - TF32 [img/s]").label == "TF32"
    assert headers.read("Throughput - Mixed precision (tok/s)").label == "Mixed precision"
    assert headers.read("images/sec (ResNet-50)").label == "ResNet-50"
    assert headers.read("Average images per second").label == ""
    assert headers.read("Multi-GPU Weak scaling - FP32").label == "FP32"


def test_the_names_of_the_kit_are_known():
    for name in headers.NAMES:
        assert headers.read(name).name == name


def test_the_user_says_what_a_header_is():
    overrides = headers.parse_overrides("Machine Num=nodes,Speed (a)=images_per_s_per_rank, note=unused,T=wall_s min")
    assert headers.read("Machine Num", overrides).name == "nodes"
    assert headers.read("speed (A)", overrides).name == "images_per_s_per_rank"
    assert headers.read("note", overrides).name == ""
    header = headers.read("T", overrides)
    assert (header.name, header.unit.factor) == ("wall_s", 60)


@pytest.mark.parametrize("override", ["GPUs", "GPUs=gpus", "=ranks x"])
def test_what_the_user_may_say_is_listed(override):
    with pytest.raises(TableError, match=r"COLUMNS: .* given; allowed: HEADER=NAME, of batch_per_rank, "):
        headers.parse_overrides(override)


@pytest.mark.parametrize(
    ("header", "expected"),
    [("4 GPUs", (4, "ranks")), ("8x V100", (8, "ranks")), ("2 nodes", (2, "nodes")), ("16", (16, "")), ("fp16", None)],
)
def test_headers_of_numbers_of_ranks(header, expected):
    assert headers.ranks_in(header) == expected
