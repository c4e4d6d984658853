import pytest

from analysis import TableError
from analysis.user_table import headers


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("GPUs", "ranks"),
        ("num_gpus", "ranks"),
        ("Number of workers", "ranks"),
        ("np", "ranks"),
        ("#GPUs", "ranks"),
        ("No. of GPUs", "ranks"),
        ("num_replicas", "ranks"),
        ("World Size", "ranks"),
        ("gpu_count", "ranks"),
        ("GPUs per node", "ranks_per_node"),
        ("GPUs/Node", "ranks_per_node"),
        ("Machine Num", "nodes"),
        ("# of Nodes", "nodes"),
        ("Steps", "steps_per_rank"),
        ("iterations per GPU", "steps_per_rank"),
        ("planned_steps_per_worker", "steps_per_rank"),
        ("Batch size / GPU", "batch_per_rank"),
        ("local_bsz", "batch_per_rank"),
        ("Per-GPU Batch", "batch_per_rank"),
        ("Global batch size", "global_batch"),
        ("Effective batch size", "global_batch"),
        ("batch_size", "batch"),
        ("Training time [s]", "wall_s"),
        ("wall-clock (sec)", "wall_s"),
        ("Wall time [min]", "wall_s"),
        ("Init time(s)", "init_s"),
        ("Total time(s)", "job_s"),
        ("Time per epoch (min)", "epoch_s"),
        ("s/epoch", "epoch_s"),
        ("ms/step", "step_s"),
        ("step_time", "step_s"),
        ("img/sec/GPU", "images_per_s_per_rank"),
        ("examples_per_s_per_gpu", "images_per_s_per_rank"),
        ("Per GPU throughput", "images_per_s_per_rank"),
        ("Global Throughput (img/s)", "images_per_s"),
        ("Total images/sec", "images_per_s"),
        ("Images/s", "rate"),
        ("tok/s", "rate"),
        ("throughput", "rate"),
        ("global_step/sec", "steps_per_s"),
        ("Speedup (train)", "speedup"),
        ("Scaling efficiency (%)", "efficiency"),
        ("Strong Scaling - TF32", "scaling"),
        ("Network", "model"),
        ("Experiment", "setting"),
        ("Repeats", "n"),
        ("trial", "repeat"),
        ("lower", "low"),
        ("colour", ""),
        ("Memory Usage", ""),
        ("Val Acc (5 epochs)", ""),
        ("sync_time", ""),
        ("Ideal speedup", ""),
        ("Throughput speedup (TF32 to Mixed precision)", ""),
        ("Speed-up with mixed precision", ""),
        ("time to accuracy", ""),
    ],
)
def test_headers_as_people_write_them(header, name):
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
    assert unit is not None
    assert (unit.kind, unit.work) == (kind, work)
    assert unit.factor == pytest.approx(factor)


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
    told = headers.parse_overrides("Machine Num=nodes,Speed (a)=images_per_s_per_rank, note=unused,Took=wall_s min")
    assert headers.read("Machine Num", told).name == "nodes"
    assert headers.read("speed (A)", told).name == "images_per_s_per_rank"
    assert headers.read("note", told).name == ""
    took = headers.read("Took", told)
    assert took.name == "wall_s"
    assert took.unit is not None
    assert took.unit.factor == 60


@pytest.mark.parametrize("said", ["GPUs", "GPUs=gpus", "=ranks x"])
def test_what_the_user_may_say_is_listed(said):
    with pytest.raises(TableError, match=r"COLUMNS: .* given; allowed: HEADER=NAME, of batch_per_rank, "):
        headers.parse_overrides(said)


@pytest.mark.parametrize(
    ("header", "found"),
    [("4 GPUs", (4, "ranks")), ("8x V100", (8, "ranks")), ("2 nodes", (2, "nodes")), ("16", (16, "")), ("fp16", None)],
)
def test_headers_of_numbers_of_ranks(header, found):
    assert headers.ranks_in(header) == found
