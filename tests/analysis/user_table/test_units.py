import pytest

from analysis.user_table import units
from analysis.user_table.units import Sizes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2 nodes x 4", Sizes(8, 2, 4)),
        ("2 nodes × 4 GPUs", Sizes(8, 2, 4)),
        ("2x4", Sizes(8, 2, 4)),
        ("4 nodes, 8 GPUs each", Sizes(32, 4, 8)),
        ("8 GPUs (2 nodes)", Sizes(8, 2, 4)),
        ("16 (2x8)", Sizes(16, 2, 8)),
        ("8 GPUs", Sizes(8)),
        ("8x V100", Sizes(8, gpu="V100")),
        ("Single GPU", Sizes(1)),
        ("3 nodes", Sizes(nodes=3)),
        ("2n8g_dp4_mp4_pp1_1536x16", Sizes(16, 2, 8)),
        ("dp4_mp4_pp1_1536x16", None),
        ("n2g4", Sizes(8, 2, 4)),
        ("A100*N2C16", Sizes(16, 2, 8, "A100")),
        ("-j4", Sizes(4)),
        ("np=8", Sizes(8)),
        ("4卡", Sizes(4)),
        ("2机16卡", Sizes(16, 2, 8)),
        ("Paralelo (4 hilos)", Sizes(4)),
        ("MPI processes 16", Sizes(16)),
        ("rank 3", None),
        ("2*RTX4090", Sizes(2, gpu="RTX4090")),
        ("单卡", Sizes(1)),
        ("n1g8_fp32", Sizes(8, 1, 8)),
        ("1x8", Sizes(8, 1, 8)),
        ("dgx1_8gpu", Sizes(8)),
        ("32 P100s", Sizes(32, gpu="P100")),
        ("V100 x 8", Sizes(8, gpu="V100")),
        ("8x A100 (2 nodes, NVLink)", Sizes(8, 2, 4, "A100")),
        ("2 p3dn nodes", Sizes(nodes=2)),
        ("Multi-GPU (2×)", Sizes(2)),
        ("DP_8x1x4_512_1536x16", Sizes(32)),
        ("15 mins", None),
        ("5h9min", None),
        ("1F1B", None),
        ("4", Sizes(4)),
        ("1 (baseline)", Sizes(1)),
        ("resnet", None),
    ],
)
def test_sizes_in_words(text, expected):
    assert units.sizes_in(text) == expected


def test_lists_of_devices_are_counted():
    assert units.device_counts(["0", "0,1", "4,5,6"]) == [1, 2, 3]
    assert units.device_counts(["1", "2", "4"]) is None
    assert units.device_counts(["1,1", "0,1"]) is None
