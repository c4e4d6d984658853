from dataclasses import replace

import pytest

from tests.helpers.configs import with_values
from tests.helpers.launch_plans import plan_points
from train.launch.plan import curve_design

WEAK = ("experiment=weak_scaling", "model=tiny", "nodes=2")


def planned(*overrides: str, cores: int = 4):
    return curve_design.design(plan_points(*overrides, cores=cores), cores)


def emulated(*overrides: str):
    return curve_design.design(plan_points("model=tiny", "launcher=emulated", *overrides, no_quotas=None), 2)


def with_measure(point, **changes):
    return replace(point, config=with_values(point.config, {f"measure.{key}": changes[key] for key in changes}))


def arms(curve) -> list[str]:
    """Role, nodes and batch of a rank of each arm, and whether it has no allreduce and reads its images."""
    return [
        f"{arm.role} {arm.nodes}x{arm.batch_per_rank}{' alone' * (not arm.allreduce)}{' reads' * arm.reads}"
        for arm in curve.config.launch.rounds
    ]


OVER_NODES = ["base 1x1", "point 2x1", "point 4x1", "control 4x1 alone"]


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ("weak_scaling nodes=4", [OVER_NODES]),
        ("weak_scaling nodes=4 measure.controls=none", [OVER_NODES[:3]]),
        (  # the global batch is kept: each arm has its share
            "strong_scaling nodes=4 global_batch=8",
            [["base 1x8", "point 2x4", "point 4x2", "control 4x2 alone"]],
        ),
        (  # a control at every number of nodes
            "weak_scaling nodes=4 measure.controls=all",
            [["base 1x1", "point 2x1", "control 2x1 alone", "point 4x1", "control 4x1 alone"]],
        ),
        (  # real images, as the step is split
            "weak_scaling nodes=2 batch_per_rank=4 dataset.name=digits measure.split=true",
            [["base 1x4 reads", "in-memory 1x4", "point 2x4 reads", "in-memory 2x4", "control 2x4 alone"]],
        ),
        ("bnl_throughput nodes=2", [[f"base 1x{b}", f"point 2x{b}", f"control 2x{b} alone"] for b in (4, 16)]),
        ("batch_sweep batch_per_rank=1,2,8", [["base 1x1", "point 1x2", "point 1x8"]]),
    ],
)
def test_points_that_can_share_a_launch_are_the_arms_of_a_curve(overrides, expected):
    assert [arms(curve) for curve in planned("model=tiny", *f"experiment={overrides}".split()).curves] == expected


def test_the_points_of_a_model_share_a_launch_and_keep_a_separate_one_on_request():
    passes = "distribution.backward_passes_per_step=3"
    points = plan_points("experiment=weak_scaling", "model=tiny,vgg16", "nodes=4", passes, cores=4)
    assert curve_design.design(points, 4).points == ()
    plan = curve_design.design([with_measure(point, separate_launches=True) for point in points], 4)
    assert [curve.name for curve in plan.curves] == ["tiny-rounds", "vgg16-rounds"]
    curve = plan.curves[0]
    assert (curve.config.nodes, curve.swept, curve.config.measure.repeats) == (4, {"model": "tiny"}, 3)
    assert {arm.backward_passes_per_step for arm in curve.config.launch.rounds} == {3}
    assert not curve.config.launch.join_in_turn  # a whole core loses nothing to ranks that wait
    assert [(point.name, point.config.measure.repeats) for point in plan.points] == [
        (f"{model}-nodes{n}", 1) for model in ("tiny", "vgg16") for n in (1, 2)
    ]  # the launches in rounds give the times of the largest one
    assert plan.reasons == ()


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        (["measure.design=launches"], "measure.design=launches"),
        (["dataset.name=digits", "measure.epochs=1"], "epochs"),
        (["dataset.name=digits"], "dataset.name=digits"),
        (["distribution.controller=mpi"], "distribution.controller=mpi"),
        (
            ["distribution.backend=mwms", "distribution.gradients=grouped"],
            "distribution.backend=mwms: its ranks work all together",
        ),
    ],
)
def test_what_cannot_share_a_launch_is_measured_in_separate_launches(overrides, reason):
    points = plan_points(*WEAK, *overrides, cores=4)
    plan = curve_design.design(points, cores=4)
    assert (plan.curves, list(plan.points)) == ((), points)
    assert reason in plan.reasons[0]


@pytest.mark.slow
def test_horovod_joins_the_ranks_of_emulated_nodes_one_arm_at_a_time():
    plan = emulated("experiment=weak_scaling", "nodes=4")
    [curve] = plan.curves
    assert curve.config.launch.join_in_turn
    assert plan.points == ()  # launches of single points would start without their quotas
    assert emulated("experiment=weak_scaling", "nodes=4", "measure.design=launches").points  # asked for
    [alone] = emulated("experiment=batch_sweep").curves
    assert not alone.config.launch.join_in_turn  # one rank


@pytest.mark.parametrize("override", ["distribution.fusion_threshold_bytes=1000000", "distribution.autotune=true"])
def test_emulated_nodes_whose_horovod_cannot_join_again_are_measured_in_launches(override):
    plan = emulated(*WEAK, override)
    assert plan.curves == ()
    assert f"{override}: Horovod" in plan.reasons[0]
    assert planned(*WEAK, override).curves


def test_points_that_differ_in_what_no_curve_can_stay_as_they_are_without_a_reason():
    points = plan_points(*WEAK, "measure.total_steps=8", cores=4)  # the steps shrink with the nodes
    assert curve_design.design(points, cores=4) == curve_design.Design(tuple(points), (), ())


def test_precision_and_budget_make_no_other_curve():
    points = plan_points(*WEAK)
    changes = ({}, {"precision_fraction": 0.01, "budget_s": 9.0}, {"controls": "none"})
    plans = (curve_design.design([with_measure(point, **change) for point in points], 2) for change in changes)
    first, same, different = (plan.curves[0].config_hash for plan in plans)
    assert first == same != different


def test_threads_are_fixed_when_a_process_starts_so_each_division_has_a_separate_rank_group():
    plan = planned("experiment=ranks_threads", "model=tiny", cores=4)
    [curve], launch = plan.curves, plan.curves[0].config.launch
    assert plan.points == ()
    assert launch.rounds[1].swept == {"model": "tiny", "ranks_per_node": 2}
    assert [(group.first_rank, group.ranks) for group in launch.rank_groups] == [(0, 1), (1, 2), (3, 4)]
    assert launch.rank_groups[0].settings == {}
    assert launch.rank_groups[2].settings == {"ranks_per_node": 4, "threads_per_rank": 1, "batch_per_rank": 8}
    assert [(arm.rank_group, arm.ranks) for arm in launch.rounds] == [(0, 1), (1, 2), (2, 4)]
    assert arms(curve) == ["base 1x32", "point 1x16", "point 1x8"]
    assert curve.config.ranks_of_job == 7
    assert not launch.rank_groups_at_once  # each needs all four cores


def test_arms_with_and_without_horovod_measure_at_once_and_other_arms_share_a_process():
    curves_of_arms = planned("experiment=overhead", "model=tiny", cores=2).curves
    assert {curve.config.system.cores_per_node for curve in curves_of_arms} == {1}  # also of one rank alone
    apart, together = (curve.config.launch for curve in curves_of_arms)
    assert [(arm.role, arm.arm) for arm in (*apart.rounds, *together.rounds)] == [
        ("base", "one-rank-without-horovod"),
        ("point", "one-rank-with-horovod"),
        ("base", "two-ranks-without-allreduce"),
        ("point", "two-ranks-with-allreduce"),
    ]
    assert [arm.allreduce for arm in together.rounds] == [False, True]
    groups = [(group.ranks, group.settings.get("distribution.backend")) for group in apart.rank_groups]
    assert (groups, apart.rank_groups_at_once) == ([(1, None), (1, "horovod")], True)
    assert together.rank_groups == ()
    in_turn, _ = planned("experiment=overhead", "model=tiny", "system.cores_per_node=2", cores=2).curves
    assert not in_turn.config.launch.rank_groups_at_once  # the cores are too few


@pytest.mark.parametrize(("hosts_apart", "fits", "reason"), [(True, True, "on one machine"), (False, False, "memory")])
def test_rank_groups_need_one_machine_and_its_memory(hosts_apart, fits, reason):
    points = plan_points("experiment=ranks_threads", "model=tiny", cores=2)
    plan = curve_design.design(points, 2, hosts_apart, lambda curve: fits)
    assert (list(plan.points), plan.curves) == (points, ())
    assert reason in plan.reasons[0]


def test_a_sweep_over_link_rates_shares_a_launch_with_its_controls():
    points = plan_points("experiment=network_sweep", "model=tiny", "system.link_mbit_per_s=100,null", no_quotas=None)
    [curve] = curve_design.design(points, cores=2).curves
    assert [
        (arm.arm, arm.role, arm.nodes, arm.allreduce, arm.link_mbit_per_s) for arm in curve.config.launch.rounds
    ] == [
        ("without-allreduce", "control", 4, False, None),
        ("one-node", "control", 1, False, None),
        ("with-allreduce", "point", 4, True, 100.0),
        ("with-allreduce", "point", 4, True, None),
    ]
    assert (curve.config.nodes, curve.config.launch.rank_groups, curve.swept) == (4, (), {"model": "tiny"})
