import pytest

from tests.helpers.launches import points_of
from train.launch.plan import curves


def planned(*overrides: str, cores: int = 4):
    return curves.design(points_of(*overrides, cores=cores), cores)


def arms(curve) -> list[tuple[int, int, bool]]:
    return [(arm.nodes, arm.batch_per_rank, arm.allreduce) for arm in curve.config.launch.rounds]


def test_the_points_of_a_model_share_a_launch_and_keep_a_separate_one():
    plan = planned("experiment=weak_scaling", "model=resnet50,vgg16", "nodes=4")
    assert [curve.name for curve in plan.curves] == ["resnet50-rounds", "vgg16-rounds"]
    assert arms(plan.curves[0]) == [(1, 1, True), (2, 1, True), (4, 1, True), (4, 1, False)]
    assert plan.curves[0].config.nodes == 4
    assert plan.curves[0].swept == {"model": "resnet50"}
    assert plan.curves[0].config.measure.repeats == 3
    assert [(point.name, point.config.measure.repeats) for point in plan.points] == [
        ("resnet50-nodes1", 1),
        ("resnet50-nodes2", 1),  # the largest one has what the launches in rounds take
        ("vgg16-nodes1", 1),
        ("vgg16-nodes2", 1),
    ]
    assert plan.reasons == ()


def test_an_arm_has_the_passes_of_its_point():
    given = ("experiment=weak_scaling", "model=resnet50", "nodes=2", "distribution.backward_passes_per_step=3")
    [curve] = planned(*given).curves
    assert {arm.backward_passes_per_step for arm in curve.config.launch.rounds} == {3}


def test_where_the_global_batch_is_kept_each_arm_has_its_share():
    [curve] = planned("experiment=strong_scaling", "model=resnet50", "nodes=4", "global_batch=8").curves
    assert arms(curve) == [(1, 8, True), (2, 4, True), (4, 2, True), (4, 2, False)]


def test_real_images_share_a_launch_where_the_step_is_split():
    given = ("experiment=diagnose", "model=digits_cnn", "dataset=digits", "nodes=2", "batch_per_rank=4")
    [curve] = planned(*given).curves
    assert [(arm.nodes, arm.role, arm.arm, arm.allreduce, arm.reads) for arm in curve.config.launch.rounds] == [
        (1, "base", None, True, True),
        (1, "in-memory", "batch-in-memory", True, False),
        (2, "point", None, True, True),
        (2, "in-memory", "batch-in-memory", True, False),
        (2, "control", "without-allreduce", False, False),
    ]
    assert planned(*given, "measure.split=false").curves == ()


def test_a_diagnosis_has_a_control_at_every_number_of_nodes():
    [curve] = planned("experiment=diagnose", "model=tiny", "nodes=4").curves
    assert arms(curve) == [(1, 1, True), (2, 1, True), (2, 1, False), (4, 1, True), (4, 1, False)]
    assert not any(arm.reads for arm in curve.config.launch.rounds)


def test_swept_batches_are_separate_curves():
    plan = planned("experiment=bnl_throughput", "model=resnet50", "nodes=2")
    assert [arms(curve) for curve in plan.curves] == [
        [(1, 4, True), (2, 4, True), (2, 4, False)],
        [(1, 16, True), (2, 16, True), (2, 16, False)],
    ]


@pytest.mark.parametrize(
    ("control", "expected"), [("all", [(2, 1, False), (4, 1, False)]), ("largest", [(4, 1, False)]), ("none", [])]
)
def test_the_control_is_measured_where_it_is_asked_for(control, expected):
    [curve] = planned("experiment=weak_scaling", "model=tiny", "nodes=4", f"measure.control={control}").curves
    assert [arm for arm in arms(curve) if not arm[2]] == expected


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        (["experiment=weak_scaling", "measure.design=launches"], "measure.design=launches"),
        (["experiment=accuracy_digits"], "epochs"),
        (["experiment=equivalence"], "dataset.name=digits"),
        (["experiment=weak_scaling", "distribution.controller=mpi"], "distribution.controller=mpi"),
        (["experiment=weak_scaling", "distribution=mwms"], "distribution.backend=mwms: its ranks work all together"),
    ],
)
def test_what_cannot_share_a_launch_is_measured_in_separate_launches(overrides, reason):
    points = points_of(*overrides, "model=tiny", "nodes=2", cores=4)
    plan = curves.design(points, cores=4)
    assert plan.curves == ()
    assert list(plan.points) == points
    assert reason in plan.reasons[0]


def emulated(*overrides: str):
    given = ("experiment=weak_scaling", "model=tiny", "launcher=emulated", *overrides)
    return curves.design(points_of(*given, no_quotas=None), 2)


def test_horovod_joins_the_ranks_of_emulated_nodes_one_arm_at_a_time():
    [curve] = emulated("nodes=4").curves
    assert curve.config.launch.join_in_turn
    [held] = planned("experiment=weak_scaling", "model=tiny", "nodes=4").curves
    assert not held.config.launch.join_in_turn  # a whole core loses nothing to ranks that wait
    [alone] = curves.design(
        points_of("experiment=batch_sweep", "model=tiny", "launcher=emulated", no_quotas=None), 2
    ).curves
    assert not alone.config.launch.join_in_turn  # one rank


def test_emulated_nodes_have_no_launches_of_single_points_which_would_start_without_their_quotas():
    assert emulated("nodes=4").points == ()
    assert emulated("nodes=4", "measure.design=launches").points  # that were asked for


@pytest.mark.parametrize(
    ("override", "reason"),
    [
        ("distribution.fusion_threshold_bytes=1000000", "distribution.fusion_threshold_bytes=1000000: Horovod joins"),
        ("distribution.autotune=true", "distribution.autotune=true: Horovod tunes itself again"),
    ],
)
def test_emulated_nodes_whose_horovod_cannot_join_again_are_measured_in_launches(override, reason):
    plan = emulated("nodes=2", override)
    assert plan.curves == ()
    assert reason in plan.reasons[0]
    assert planned("experiment=weak_scaling", "model=tiny", "nodes=2", override).curves


def test_points_that_differ_in_what_no_curve_can_stay_as_they_are_without_a_reason():
    points = points_of("experiment=fixed_work", "model=tiny", cores=4)  # the steps shrink with the nodes
    assert curves.design(points, cores=4) == curves.Design(tuple(points), (), ())


def test_precision_and_budget_make_no_other_curve():
    [one] = planned("experiment=weak_scaling", "model=tiny", "nodes=2").curves
    [same] = planned("experiment=weak_scaling", "model=tiny", "nodes=2", "measure.precision_fraction=0.01").curves
    [other] = planned("experiment=weak_scaling", "model=tiny", "nodes=2", "measure.control=none").curves
    assert curves.config_hash(one.config) == curves.config_hash(same.config) != curves.config_hash(other.config)


def test_a_sweep_over_batches_on_one_node_is_a_curve_without_launches_of_single_points():
    plan = planned("experiment=batch_sweep", "model=tiny", "batch_per_rank=1,2,8")
    assert plan.points == ()
    [curve] = plan.curves
    assert arms(curve) == [(1, 1, True), (1, 2, True), (1, 8, True)]
    assert [arm.role for arm in curve.config.launch.rounds] == ["base", "point", "point"]
    assert [arm.swept for arm in curve.config.launch.rounds][-1] == {"model": "tiny", "batch_per_rank": 8}
    assert curve.config.launch.rank_groups == ()


def test_threads_are_fixed_when_a_process_starts_so_each_division_has_a_separate_rank_group():
    [curve] = planned("experiment=ranks_threads", "model=tiny", cores=4).curves
    groups = [(group.first_rank, group.ranks, group.settings) for group in curve.config.launch.rank_groups]
    assert [(first, ranks) for first, ranks, _ in groups] == [(0, 1), (1, 2), (3, 4)]
    assert groups[0][2] == {}
    assert groups[2][2] == {"ranks_per_node": 4, "threads_per_rank": 1, "batch_per_rank": 8}
    assert [(arm.rank_group, arm.ranks, arm.batch_per_rank) for arm in curve.config.launch.rounds] == [
        (0, 1, 32),
        (1, 2, 16),
        (2, 4, 8),
    ]
    assert curve.config.ranks_of_job == 7
    assert not curve.config.launch.rank_groups_at_once  # each needs all four cores


def test_of_arms_those_with_and_without_horovod_measure_at_once_and_others_share_a_process():
    with_and_without, allreduce = planned("experiment=overhead", "model=tiny", cores=2).curves
    assert [arm.arm for arm in with_and_without.config.launch.rounds] == [
        "one-rank-without-horovod",
        "one-rank-with-horovod",
    ]
    assert [arm.role for arm in with_and_without.config.launch.rounds] == ["base", "point"]
    assert [group.ranks for group in with_and_without.config.launch.rank_groups] == [1, 1]
    assert with_and_without.config.launch.rank_groups_at_once
    assert [group.settings.get("distribution.backend") for group in with_and_without.config.launch.rank_groups] == [
        None,
        "horovod",
    ]
    assert [arm.arm for arm in allreduce.config.launch.rounds] == [
        "two-ranks-without-allreduce",
        "two-ranks-with-allreduce",
    ]
    assert allreduce.config.launch.rank_groups == ()
    assert allreduce.config.distribution.allreduce


def test_rank_groups_take_turns_where_the_cores_are_too_few():
    curve, _ = planned("experiment=overhead", "model=tiny", "system.cores_per_node=2", cores=2).curves
    assert not curve.config.launch.rank_groups_at_once


@pytest.mark.parametrize(("hosts_apart", "fits", "reason"), [(True, True, "on one machine"), (False, False, "memory")])
def test_rank_groups_need_one_machine_and_its_memory(hosts_apart, fits, reason):
    points = points_of("experiment=ranks_threads", "model=tiny", cores=2)
    plan = curves.design(points, 2, hosts_apart, lambda curve: fits)
    assert (list(plan.points), plan.curves) == (points, ())
    assert reason in plan.reasons[0]


def test_a_sweep_over_link_rates_shares_a_launch_with_its_controls():
    points = points_of("experiment=network_sweep", "model=tiny", "system.link_mbit_per_s=100,null", no_quotas=None)
    [curve] = curves.design(points, cores=2).curves
    assert [
        (arm.arm, arm.role, arm.nodes, arm.allreduce, arm.link_mbit_per_s) for arm in curve.config.launch.rounds
    ] == [
        ("without-allreduce", "control", 4, False, None),
        ("one-node", "control", 1, False, None),
        ("with-allreduce", "point", 4, True, 100.0),
        ("with-allreduce", "point", 4, True, None),
    ]
    assert curve.config.nodes == 4
    assert curve.config.launch.rank_groups == ()
    assert curve.swept == {"model": "tiny"}
