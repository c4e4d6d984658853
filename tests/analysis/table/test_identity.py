from analysis.table.identity import Facts, axis, identify, phrase

CONFIG = {"nodes": 1, "optimizer.momentum": 0.9, "global_batch": 8, "distribution.backend": "horovod"}


def facts(swept, arm=None, arm_keys=(), derived=(), **config):
    return Facts("mine", "lab", CONFIG | config, derived, swept, arm, arm_keys)


def test_nodes_are_the_axis_then_ranks_per_node_then_the_last_number():
    assert axis([{"optimizer.momentum": 0.9, "nodes": 2, "ranks_per_node": 1}]) == "nodes"
    assert axis([{"ranks_per_node": 1, "optimizer.momentum": 0.9}]) == "ranks_per_node"
    assert axis([{"batch_per_rank": 4, "optimizer.momentum": 0.9}]) == "optimizer.momentum"
    assert axis([{"system.link_mbit_per_s": 100}, {"system.link_mbit_per_s": None}]) == "system.link_mbit_per_s"


def test_groups_flags_words_and_seeds_are_no_axis():
    assert axis([{"model": "vgg16"}, {"model": "resnet50"}]) == ""
    assert axis([{"distribution.allreduce": True}]) == ""
    assert axis([{"weights": "none"}, {"weights": None}]) == ""
    assert axis([{"nodes": 1, "seed": 3}]) == "nodes"
    assert axis([{"seed": 3}]) == ""
    assert axis([{}]) == ""


def test_the_points_along_the_axis_share_a_series_and_all_else_does_not():
    swept = [{"optimizer.momentum": momentum, "model": "vgg16"} for momentum in (0.0, 0.9)]
    one, two = identify([facts(s, **{"optimizer.momentum": s["optimizer.momentum"]}) for s in swept])
    assert one["axis"] == "optimizer.momentum"
    assert (one["axis_value"], two["axis_value"]) == (0.0, 0.9)
    assert one["series"] == two["series"]
    (other,) = identify([facts(swept[0], **{"global_batch": 16})])
    assert other["series"] != one["series"]


def test_what_was_derived_from_the_axis_does_not_part_a_series():
    one, two = identify(
        [facts({"nodes": n}, derived=["global_batch"], nodes=n, global_batch=8 * n) for n in (1, 2)]
    )  # fmt: skip
    assert one["series"] == two["series"]
    assert one["kept"] == "batch_per_rank"
    one, two = identify([facts({"nodes": n}, nodes=n, global_batch=8 * n) for n in (1, 2)])
    assert one["series"] != two["series"]


def test_other_swept_keys_are_reported_in_words():
    (one,) = identify([facts({"model": "vgg16", "dataset": "synthetic", "batch_per_rank": 4, "nodes": 2, "seed": 1})])
    assert one["swept"] == "synthetic, batch 4"
    assert phrase("optimizer.momentum", 0.9) == "momentum 0.9"
    assert phrase("system.link_mbit_per_s", None) == "link mbit per s none"
    assert phrase("optimizer.nesterov", True) == "nesterov True"


def test_arms_share_a_comparison_but_no_series():
    keys = ["nodes", "distribution"]
    with_, without = identify([facts({}, "with", keys), facts({}, "without", keys, **{"distribution.backend": "none"})])
    assert with_["series"] != without["series"]
    assert with_["arms"] == without["arms"]


def test_what_was_changed_in_all_arms_alike_parts_comparisons():
    def arm(name, backend, gradients):
        changed = {"distribution.backend": backend, "distribution.gradients": gradients}
        return facts({}, name, ["distribution"], **changed)

    result = identify(
        [arm(n, b, g) for n, b in (("with", "horovod"), ("without", "none")) for g in ("flat", "grouped")]
    )
    assert [result[0]["arms"], result[1]["arms"]] == [result[2]["arms"], result[3]["arms"]]
    assert result[0]["arms"] != result[1]["arms"]


def test_a_key_that_only_one_arm_has_does_not_part_it_from_the_others():
    def arm(name, **keys):
        return facts(
            {"nodes": 1}, name, ["distribution"], **{f"distribution.{key}": value for key, value in keys.items()}
        )

    result = identify([arm("horovod", backend="horovod"), arm("ps", backend="ps", servers=1)])
    assert result[0]["arms"] == result[1]["arms"]
    assert result[0]["series"] != result[1]["series"]
