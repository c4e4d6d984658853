import pytest

from analysis.user_table import headers

# The name of headers, and the factor of their unit.
HEADERS = {
    ("ranks", 1): ("# of GPUs", "Total # of GPUs", "GPUs used", "nGPUs", "ngpu", "nranks", "nproc", "Ntasks", "PEs"),
    ("ranks_per_node", 1): ("GPUs/node",), ("batch_per_rank", 1): ("batch size / GPU",),
    ("wall_s", 1e-3): ("wall_time_ms",), ("wall_s", 60): ("Train time [min]",), ("step_s", 1e-3): ("ms/step",),
    ("rate", 1e3): ("Throughput (k tok/s)",), ("images_per_s_per_rank", 1): ("images/s per GPU",),
    ("images_per_s_per_node", 1): ("images/s per node",), ("efficiency", 0.01): ("Parallel Efficiency (%)",),
    ("setting", 1): ("No. Particles",),
}  # fmt: skip


@pytest.mark.parametrize(("text", "meaning"), [(text, meaning) for meaning, texts in HEADERS.items() for text in texts])
def test_a_whole_header_of_the_list(text, meaning):
    column = headers.read_header(text)
    assert (column.name, column.unit.factor) == meaning


@pytest.mark.parametrize(
    "text",
    [
        "min", "max", "mean", "p50", "user", "s", "time_min", "Length Scaling Factor [L]", "LR scaling", "Grid scaling",
        "Photons/s", "GB/s", "communication time per GPU", "NCCL speedup of kernels", "Sync time (ms)", "p3dn nodes",
    ],
)  # fmt: skip
def test_a_header_that_only_contains_such_words_is_unknown(text):
    assert headers.read_header(text).name == ""
