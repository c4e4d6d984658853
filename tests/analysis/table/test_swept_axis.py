import pytest

from analysis.table.swept_axis import Facts, axis, identify, phrase

CONFIG = {"nodes": 1, "optimizer.momentum": 0.9, "global_batch": 8, "distribution.backend": "horovod"}


def facts(swept, arm=None, arm_keys=(), derived=(), **config):
    return Facts("mine", "lab", CONFIG | config, derived, swept, arm, arm_keys)


@pytest.mark.parametrize(
    ("swept", "key"),
    [
        ([{"optimizer.momentum": 0.9, "nodes": 2, "ranks_per_node": 1}], "nodes"),
        ([{"ranks_per_node": 1, "optimizer.momentum": 0.9}], "ranks_per_node"),
        ([{"batch_per_rank": 4, "optimizer.momentum": 0.9}], "optimizer.momentum"),
        ([{"system.link_mbit_per_s": 100}, {"system.link_mbit_per_s": None}], "system.link_mbit_per_s"),
        ([{"nodes": 1, "seed": 3}], "nodes"),
        # groups, flags, words and seeds
        ([{"model": "vgg16"}, {"model": "resnet50"}], ""),
        ([{"distribution.allreduce": True}], ""),
        ([{"weights": "none"}, {"weights": None}], ""),
        ([{"seed": 3}], ""),
        ([{}], ""),
    ],
)
def test_nodes_are_the_axis_then_ranks_per_node_then_the_last_number(swept, key):
    assert axis(swept) == key


def test_the_points_along_the_axis_share_a_series_and_all_else_does_not():
    swept = [{"optimizer.momentum": momentum, "model": "vgg16"} for momentum in (0.0, 0.9)]
    one, two = identify([facts(s, **{"optimizer.momentum": s["optimizer.momentum"]}) for s in swept])
    assert one["axis"] == "optimizer.momentum"
    assert (one["axis_value"], two["axis_value"]) == (0.0, 0.9)
    assert one["series"] == two["series"]
    (other,) = identify([facts(swept[0], **{"global_batch": 16})])
    assert other["series"] != one["series"]


def test_values_derived_from_the_axis_do_not_separate_series():
    batches = [{"nodes": n, "global_batch": 8 * n} for n in (1, 2)]
    one, two = identify([facts({"nodes": batch["nodes"]}, derived=["global_batch"], **batch) for batch in batches])
    assert one["series"] == two["series"]
    assert one["kept"] == "batch_per_rank"
    one, two = identify([facts({"nodes": batch["nodes"]}, **batch) for batch in batches])
    assert one["series"] != two["series"]


def test_other_swept_keys_are_reported_in_words():
    (row,) = identify([facts({"model": "vgg16", "dataset": "synthetic", "batch_per_rank": 4, "nodes": 2, "seed": 1})])
    assert row["swept"] == "synthetic, batch 4"
    values = {"optimizer.momentum": 0.9, "system.link_mbit_per_s": None, "optimizer.nesterov": True}
    assert [phrase(*item) for item in values.items()] == ["momentum 0.9", "link mbit per s none", "nesterov True"]


def arm(name, **distribution):
    changed = {f"distribution.{key}": value for key, value in distribution.items()}
    return facts({"nodes": 1}, name, ["nodes", "distribution"], **changed)


@pytest.mark.parametrize("other", [{"backend": "none"}, {"backend": "ps", "servers": 1}])
def test_arms_share_a_comparison_but_no_series(other):
    """A key that only one arm has does not separate it from the others."""
    one, two = identify([arm("one", backend="horovod"), arm("two", **other)])
    assert one["series"] != two["series"]
    assert one["arms"] == two["arms"]


def test_a_setting_that_differs_in_all_arms_alike_separates_comparisons():
    pairs = [(b, g) for b in ("horovod", "none") for g in ("flat", "grouped")]
    result = [row["arms"] for row in identify([arm(b, backend=b, gradients=g) for b, g in pairs])]
    assert result[:2] == result[2:]
    assert result[0] != result[1]
