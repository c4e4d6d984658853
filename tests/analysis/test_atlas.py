"""Where a curve is among published ones: a made-up atlas, and curves of the sources, worked out by hand."""

import re

import numpy as np
import pandas as pd
import pytest

from analysis import atlas, audit
from analysis.stats.repeats import singles, typical
from common.terminal import counted
from tests.helpers import ROOT


def _points(number: int) -> pd.DataFrame:
    """Return weak curves of an image model on 1 and 2 nodes; the nth has an efficiency of 0.90 + n / 100."""
    rows = [
        {
            "curve": f"curve {nth}", "family": "image", "gpu": ("V100", "A100")[nth % 2], "year": (2017, 2020)[nth % 2],
            "experiment": "", "nodes": nodes, "ranks_per_node": 8, "ranks": 8 * nodes, "batch_per_rank": 64 + nth,
            "global_batch": 8 * nodes * (64 + nth), "value": 100.0 if nodes == 1 else 2 * (90.0 + nth),
        }
        for nth in range(number)
        for nodes in (1, 2)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def _mine(**changed: object) -> dict:
    mine = {"family": "image", "scaling": "weak", "over": "nodes", "base": 1.0, "size": 2.0, "device": "gpu"}
    return mine | {"batch_per_rank": 32} | changed


def test_a_place_among_six_curves():
    assert atlas.published(_mine(), atlas.pairs(_points(6))) == (
        "Alike: image models, weak scaling, 2 times the nodes. "
        "Not alike, or not known: accelerator, batch per rank (yours is smaller than all), links, precision. "
        "6 published curves: 0.90 to 0.95, median 0.93 (V100 to A100, 1 node at the base)"
    )


@pytest.mark.parametrize(
    ("number", "changed"),
    [
        pytest.param(4, {}, id="too few"),
        pytest.param(6, {"family": "language"}, id="another kind of program"),
        pytest.param(6, {"scaling": "strong"}, id="strong scaling"),
        pytest.param(6, {"size": 4.0}, id="another ratio of sizes"),
        pytest.param(6, {"over": "ranks"}, id="over the ranks of a node"),
    ],
)
def test_no_place_without_five_curves_that_are_alike(number, changed):
    assert atlas.published(_mine(**changed), atlas.pairs(_points(number))) == ""


def test_both_batches_decide_what_scaling_a_pair_is():
    points = _points(1).assign(batch_per_rank=[64, 32], global_batch=[512, 512])
    assert atlas.pairs(points)["scaling"].tolist() == ["strong"]
    assert atlas.pairs(points.assign(global_batch=[512, 768]))["scaling"].tolist() == [""]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("curve", "ratio", "efficiency"),
    [
        # TensorFlow/resnet50v1.5/README.md, FP32: 321.80 images/s on one GPU, 2458.74 on 8 and 9418.44 on 32.
        pytest.param(
            "dlperf: TensorFlow/resnet50v1.5 FP32, table 1, resnet50", 4, 9418.44 / (4 * 2458.74), id="DLPerf"
        ),
        # P100 on Azure by Intel MPI: 504.5 images/s on a node, 3437.1 on 8.
        pytest.param("azure: Azure P100 Intel MPI over InfiniBand, resnet101", 8, 3437.1 / (8 * 504.5), id="Azure"),
        # SPARTA: 2652.11 per node on one node, 2098.58 on 2,048.
        pytest.param("lanl: ats3--scale--main, SPARTA", 2048, 2098.58 / 2652.11, id="LANL"),
    ],
)
def test_efficiencies_by_hand(curve, ratio, efficiency):
    rows = atlas.from_smallest("nodes")
    at = rows[rows["curve"].eq(curve) & rows["ratio"].eq(ratio)]
    assert at["efficiency"].tolist() == pytest.approx([efficiency], rel=1e-4)


def _loss(efficiencies: pd.Series) -> str:
    """Return the typical share of its efficiency that a curve loses at a doubling; the interval is about other curves.

    efficiencies: what each curve keeps of it.
    """
    share = typical(singles(efficiencies.tolist()))
    ends = f" ({1 - share.high:.1%} to {1 - share.low:.1%})" if share.has_interval else ""
    return f"{1 - share.value:.1%}{ends}, {counted(share.n, 'curve')}" if share.n else ""


@pytest.mark.slow
def test_the_page_has_the_losses_of_the_atlas_and_its_number_of_curves():
    """Each curve over the nodes counts once, at its largest size."""
    page = (ROOT / "docs/atlas.md").read_text()
    rows = atlas.from_smallest("nodes").groupby("curve").tail(1)
    per_doubling, weak = rows["efficiency"] ** (1 / np.log2(rows["ratio"])), rows["scaling"].eq("weak")
    for first, last in ((2014, 2016), (2017, 2019), (2020, 2021), (2022, 2023), (2024, 2025)):
        then = rows["year"].between(first, last)
        assert re.search(rf"^\| {first} to {last} \| .* \| {re.escape(_loss(per_doubling[then & weak]))} \| "
                         rf"{re.escape(_loss(per_doubling[then & ~weak]))} \|$", page, re.MULTILINE)  # fmt: skip
    counts = [int(count) for count in re.findall(r"^\| .* \| (\d+) \| \d+ \| \d+ \|", page, re.MULTILINE)]
    assert sum(counts) == atlas.pairs(atlas.points())["curve"].nunique() == 439


@pytest.mark.slow
@pytest.mark.on_change_of("analysis/")
def test_what_does_not_add_up_is_what_was_checked_in_the_sources():
    graded = [
        (f.severity, f.rule, f.place.split(":")[0]) for f in audit.atlas_findings() if f.rule != "logged_throughput"
    ]
    assert graded == [
        ("warning", "more_ranks_no_faster", "GROMACS/large/results/Cirrus_confout/GromacsBench_nodes_cirrus"),
        ("warning", "more_ranks_no_faster", "experiments/*/plot.svg"),
        ("note", "stated_speedup", "MxNet/BERT/README.md, table 7"),
        ("note", "stated_speedup", "OneFlow/Recognition/insightface/README.md, table 14"),
        ("note", "stated_speedup", "OneFlow/Recognition/insightface/README.md, table 5"),
        ("note", "stated_speedup", "PaddlePaddle/resnet50v1.5/README.md, table 3"),
        ("serious", "beyond_ideal", "training_results_v1.1 Dell/results/2xXE8545x4A100-SXM-80GB/rnnt"),
    ]
