from dataclasses import replace

import pytest

from record.recorded_config import RoundArm
from tests.helpers.configs import with_values
from tests.helpers.launch_plans import plan_points
from train.config.measure_config import LaunchPlan
from train.launch.plan import curve_design

WEAK = ("experiment=weak_scaling", "model=tiny", "nodes=2")


def planned(*overrides: str, cores: int = 4):
    return curve_design.design(plan_points(*overrides, cores=cores), cores)


def emulated(*overrides: str):
    return curve_design.design(plan_points("model=tiny", "launcher=emulated", *overrides, no_quotas=None), 2)


def with_measure(point, **changes):
    return replace(point, config=with_values(point.config, {f"measure.{key}": changes[key] for key in changes}))


def arms(curve) -> list[str]:
    """Name or role, nodes and batch of a rank of each arm, and whether it reads its images."""
    rounds = curve.config.launch.rounds
    return [f"{arm.arm or arm.role} {arm.nodes}x{arm.batch_per_rank}{' reads' * arm.reads}" for arm in rounds]


ADDED = ("batch-in-memory", "without-allreduce")


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ("weak_scaling nodes=4 measure.controls=none", [["base 1x1", "point 2x1", "point 4x1"]]),
        (  # the global batch is kept: each arm has its share; synthetic images are not read
            "strong_scaling nodes=4 global_batch=8 measure.split=true",
            [["base 1x8", "point 2x4", "point 4x2", "without-allreduce 4x2"]],
        ),
        (  # a control at every number of nodes, but one
            "weak_scaling nodes=4 ranks_per_node=2 measure.controls=all",
            [["base 1x1", "point 2x1", "without-allreduce 2x1", "point 4x1", "without-allreduce 4x1"]],
        ),
        (  # real images, as the step is split
            "weak_scaling nodes=2 batch_per_rank=4 dataset.name=digits measure.split=true",
            [["base 1x4 reads", "batch-in-memory 1x4", "point 2x4 reads", *(f"{arm} 2x4" for arm in ADDED)]],
        ),
        ("batch_sweep batch_per_rank=1,2,8", [["base 1x1", "point 1x2", "point 1x8"]]),
        ("batch_sweep batch_per_rank=8", []),
    ],
)
def test_points_that_can_share_a_launch_are_the_arms_of_a_curve(overrides, expected):
    assert [arms(curve) for curve in planned("model=tiny", *f"experiment={overrides}".split()).curves] == expected


def test_the_points_of_a_model_share_a_launch_and_keep_a_separate_one_on_request():
    passes = "distribution.backward_passes_per_step=3"
    points = plan_points("experiment=weak_scaling", "model=tiny,vgg16", "nodes=4", passes, cores=4)
    assert curve_design.design(points, 4).points == ()
    repeats, both = {"tiny": 1, "vgg16": 4}, {"separate_launches": True, "budget_s": 90.0}
    points = [with_measure(point, repeats=repeats[point.swept["model"]], **both) for point in points]
    plan = curve_design.design(points, 4)
    assert [curve.name for curve in plan.curves] == ["tiny-rounds", "vgg16-rounds"]
    curve = plan.curves[0]
    assert (curve.config.nodes, curve.swept) == (4, {"model": "tiny"})
    assert curve.config.measure == replace(points[0].config.measure, curve_budget_s=45.0)  # of 90 for both

    def arm(nodes, added="", **more):
        size, swept = (nodes, nodes, 1), {"model": "tiny", "nodes": nodes}
        name = f"nodes{nodes}-batch_per_rank1{added}"
        return RoundArm(name, *size, swept=swept, backward_passes_per_step=3, **more)

    control = arm(4, "-without-allreduce", allreduce=False, arm="without-allreduce", role="control")
    # A whole core loses nothing to ranks that wait.
    assert curve.config.launch == LaunchPlan(rounds=(arm(1, role="base"), arm(2), arm(4), control))
    # The launches in rounds give the times of the largest one.
    assert [(point.name, point.config.measure.repeats) for point in plan.points] == [
        ("tiny-nodes1", 1), ("tiny-nodes2", 1), ("vgg16-nodes1", 2), ("vgg16-nodes2", 2),
    ]  # fmt: skip
    assert plan.reasons == ()


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        (["measure.design=launches"], "measure.design=launches"),
        (["dataset.name=digits", "measure.epochs=1"], "epochs are trained"),
        (["experiment=allreduce_bench", "nodes=4", "distribution.controller=gloo"], "an allreduce sweep has no"),
        (["dataset.name=digits"], "dataset.name=digits"),
        (["distribution.controller=mpi"], "distribution.controller=mpi"),
        (["distribution.backend=mwms", "distribution.gradients=grouped"], "distribution.backend=mwms: its ranks work"),
    ],
)
def test_what_cannot_share_a_launch_is_measured_in_separate_launches(overrides, reason):
    points = plan_points(*WEAK, *overrides, cores=4)
    plan = curve_design.design(points, cores=4)
    assert (plan.curves, list(plan.points)) == ((), points)
    [why] = plan.reasons
    assert why.startswith(reason)


def test_horovod_joins_the_ranks_of_emulated_nodes_one_arm_at_a_time():
    strong = ("experiment=strong_scaling", "nodes=4", "global_batch=16")
    plan = emulated(*strong, "measure.controls=all", "measure.separate_launches=true")
    [curve] = plan.curves
    on_1 = ["base 1x16", "without-allreduce 1x8", "without-allreduce 1x4"]
    assert arms(curve) == [*on_1, "point 2x8", "without-allreduce 2x8", "point 4x4", "without-allreduce 4x4"]
    assert curve.config.launch.join_in_turn
    assert plan.points == ()  # launches of single points would start without their quotas
    [alone] = emulated("experiment=batch_sweep", "batch_per_rank=1,2").curves
    assert not alone.config.launch.join_in_turn  # one rank


CONTROLLED = ["without-allreduce 1x1", "base 2x1", "point 4x1", "without-allreduce 4x1"]


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (  # four nodes cannot share two images
            "strong_scaling nodes=4 global_batch=2,8",
            [
                ["base 1x2", "without-allreduce 1x1", "point 2x1", "without-allreduce 2x1"],
                ["base 1x8", "without-allreduce 1x2", "point 2x4", "point 4x2", "without-allreduce 4x2"],
            ],
        ),
        ("weak_scaling nodes=2,4", [CONTROLLED]),  # one node is no point
        ("weak_scaling nodes=2,4 system.cpu_quota_per_node=0.2,0.4", [CONTROLLED] * 2),
        (
            "weak_scaling nodes=2 measure.controls=none,all",
            [["base 1x1", "point 2x1"], ["base 1x1", "point 2x1", "without-allreduce 2x1"]],
        ),
        (
            "batch_sweep nodes=4 batch_per_rank=1,2",
            [[f"{arm}x{batch}" for batch in (1, 2) for arm in
              ("base 4" if batch == 1 else "point 4", "without-allreduce 4", "without-allreduce 1")]],
        ),
        ("ranks_threads nodes=4", []),  # one division of a core: a point and its controls
    ],
)  # fmt: skip
def test_each_curve_of_emulated_nodes_has_the_controls_of_its_largest_point_and_of_its_batches(overrides, expected):
    plan = emulated(*f"experiment={overrides}".split())
    assert [arms(curve) for curve in plan.curves] == expected
    assert plan.points == () or not expected


@pytest.mark.parametrize("override", ["distribution.fusion_threshold_bytes=1000000", "distribution.autotune=true"])
def test_emulated_nodes_whose_horovod_cannot_join_again_are_measured_in_launches(override):
    plan = emulated(*WEAK, override)
    assert plan.curves == ()
    assert plan.reasons[0].startswith(f"{override}: Horovod")
    assert planned(*WEAK, override).curves


def test_points_that_differ_in_what_no_curve_can_stay_as_they_are_without_a_reason():
    points = plan_points(*WEAK, "measure.total_steps=8", cores=4)  # the steps shrink with the nodes
    assert curve_design.design(points, cores=4) == curve_design.Design(tuple(points), (), ())


def test_threads_are_fixed_when_a_process_starts_so_each_division_has_a_separate_rank_group():
    plan = planned("experiment=ranks_threads", "model=tiny", "nodes=2", cores=8)
    [curve], launch = plan.curves, plan.curves[0].config.launch
    assert plan.points == ()
    assert launch.rounds[1].swept == {"model": "tiny", "ranks_per_node": 2}
    assert [(group.first_rank, group.ranks) for group in launch.rank_groups] == [(0, 2), (2, 4), (6, 8)]
    assert launch.rank_groups[0].settings == {}
    assert launch.rank_groups[2].settings == {"ranks_per_node": 4, "threads_per_rank": 1, "batch_per_rank": 4}
    assert [(arm.rank_group, arm.ranks) for arm in launch.rounds] == [(0, 2), (1, 4), (2, 8)]
    assert arms(curve) == ["base 2x16", "point 2x8", "point 2x4"]
    assert curve.config.ranks_of_job == 14
    assert not launch.rank_groups_at_once  # each needs all eight cores


def test_arms_with_and_without_horovod_measure_at_once_and_other_arms_share_a_process():
    points = plan_points("experiment=overhead", "model=tiny", cores=2)
    curves_of_arms = curve_design.design(points, 2).curves
    assert [(curve.name, curve.config.system.cores_per_node) for curve in curves_of_arms] == [
        ("tiny-ranks1-rounds", 1), ("tiny-ranks2-rounds", 1),
    ]  # fmt: skip
    assert [arms(curve) for curve in curves_of_arms] == [
        ["one-rank-without-horovod 1x16", "one-rank-with-horovod 1x16"],
        ["two-ranks-without-allreduce 2x16", "two-ranks-with-allreduce 2x16"],
    ]
    apart, together = (curve.config.launch for curve in curves_of_arms)
    groups = [(group.ranks, group.settings.get("distribution.backend")) for group in apart.rank_groups]
    assert (groups, apart.rank_groups_at_once) == ([(1, None), (1, "horovod")], True)
    assert together.rank_groups == ()
    in_turn, _ = planned("experiment=overhead", "model=tiny", "system.cores_per_node=2", cores=2).curves
    assert not in_turn.config.launch.rank_groups_at_once  # the cores are too few


SHARE = "processes of different setups share a launch"


@pytest.mark.parametrize(
    ("device", "hosts_apart", "fits", "reason"),
    [
        ("cpu", True, True, f"launcher=local: {SHARE} on one machine only"),
        ("cpu", False, False, "tiny-rounds: its 3 processes do not fit into memory together"),
        ("gpu", False, True, f"{SHARE} where their nodes have whole cores, and no GPU"),
    ],
)
def test_rank_groups_need_one_machine_and_its_memory(device, hosts_apart, fits, reason):
    points = plan_points("experiment=ranks_threads", "model=tiny", f"device={device}", cores=2)
    plan = curve_design.design(points, 2, hosts_apart, lambda curve: fits)
    assert plan == curve_design.Design(tuple(points), (), (reason,))


def test_a_sweep_over_link_rates_shares_a_launch_with_its_controls():
    sweep = ("experiment=network_sweep", "model=tiny", "system.link_mbit_per_s=100,null", "nodes=2")
    points = plan_points(*sweep, no_quotas=None)
    assert {point.arm_keys for point in points} == {("distribution.allreduce", "system.link_mbit_per_s", "nodes")}
    [curve] = curve_design.design(points, cores=2).curves
    assert (curve.name, curve.config.launch.join_in_turn) == ("tiny-rounds", True)
    assert [
        (arm.arm, arm.role, arm.nodes, arm.allreduce, arm.link_mbit_per_s) for arm in curve.config.launch.rounds
    ] == [
        ("without-allreduce", "control", 2, False, None),
        ("one-node", "control", 1, False, None),
        ("with-allreduce", "point", 2, True, 100.0),
        ("with-allreduce", "point", 2, True, None),
    ]
    assert (curve.config.nodes, curve.config.launch.rank_groups, curve.swept) == (2, (), {"model": "tiny"})
