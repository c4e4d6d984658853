import pytest

from analysis.user_table import headers


@pytest.mark.parametrize(
    ("text", "name", "factor"),
    [
        ("# of GPUs", "ranks", 1),
        ("Total # of GPUs", "ranks", 1),
        ("GPUs used", "ranks", 1),
        ("nGPUs", "ranks", 1),
        ("ngpu", "ranks", 1),
        ("nranks", "ranks", 1),
        ("nproc", "ranks", 1),
        ("Ntasks", "ranks", 1),
        ("PEs", "ranks", 1),
        ("GPUs/node", "ranks_per_node", 1),
        ("wall_time_ms", "wall_s", 1e-3),
        ("Train time [min]", "wall_s", 60),
        ("ms/step", "step_s", 1e-3),
        ("Throughput (k tok/s)", "rate", 1e3),
        ("images/s per GPU", "images_per_s_per_rank", 1),
        ("images/s per node", "images_per_s_per_node", 1),
        ("Parallel Efficiency (%)", "efficiency", 0.01),
        ("batch size / GPU", "batch_per_rank", 1),
        ("No. Particles", "setting", 1),
    ],
)
def test_a_whole_header_of_the_list(text, name, factor):
    column = headers.read_header(text)
    assert (column.name, column.unit.factor) == (name, factor)


@pytest.mark.parametrize(
    "text",
    [
        "min", "max", "mean", "p50", "user", "s", "time_min", "Length Scaling Factor [L]", "LR scaling", "Grid scaling",
        "Photons/s", "GB/s", "communication time per GPU", "NCCL speedup of kernels", "Sync time (ms)", "p3dn nodes",
    ],
)  # fmt: skip
def test_a_header_that_only_contains_such_words_is_unknown(text):
    assert headers.read_header(text).name == ""
