import pytest

from tests.helpers.launches import points_of
from train.launch.plan import curves


def planned(*overrides: str, cores: int = 4):
    return curves.plan(points_of(*overrides, cores=cores))


def arms(curve) -> list[tuple[int, int, bool]]:
    return [(arm.nodes, arm.batch_per_rank, arm.allreduce) for arm in curve.config.rounds]


def test_the_points_of_a_model_share_a_launch_and_keep_one_of_their_own():
    plan = planned("experiment=weak_scaling", "model=resnet50,vgg16", "nodes=4")
    assert [curve.name for curve in plan.curves] == ["resnet50-rounds", "vgg16-rounds"]
    assert arms(plan.curves[0]) == [(1, 1, True), (2, 1, True), (4, 1, True), (4, 1, False)]
    assert plan.curves[0].config.nodes == 4
    assert plan.curves[0].swept == {"model": "resnet50"}
    assert plan.curves[0].config.measure.repeats == 1
    assert [(point.name, point.config.measure.repeats) for point in plan.points][:3] == [
        ("resnet50-nodes1", 1),
        ("resnet50-nodes2", 1),
        ("resnet50-nodes4", 1),
    ]
    assert plan.reasons == ()


def test_where_the_global_batch_is_kept_each_arm_has_its_share():
    [curve] = planned("experiment=strong_scaling", "model=resnet50", "nodes=4", "global_batch=8").curves
    assert arms(curve) == [(1, 8, True), (2, 4, True), (4, 2, True), (4, 2, False)]


def test_batches_that_are_swept_are_curves_of_their_own():
    plan = planned("experiment=bnl_throughput", "model=resnet50", "nodes=2")
    assert [arms(curve) for curve in plan.curves] == [
        [(1, 4, True), (2, 4, True), (2, 4, False)],
        [(1, 16, True), (2, 16, True), (2, 16, False)],
    ]


@pytest.mark.parametrize(
    ("control", "expected"),
    [("all", [(2, 1, False), (4, 1, False)]), ("largest", [(4, 1, False)]), ("none", [])],
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
    ],
)
def test_what_cannot_share_a_launch_is_measured_in_launches_of_its_own(overrides, reason):
    points = points_of(*overrides, "model=tiny", "nodes=2", cores=4)
    plan = curves.plan(points)
    assert plan.curves == ()
    assert list(plan.points) == points
    assert reason in plan.reasons[0]


@pytest.mark.parametrize("experiment", ["batch_sweep", "fixed_work"])  # one node; steps that shrink with the nodes
def test_what_is_no_curve_stays_as_it_is_without_a_reason(experiment):
    points = points_of(f"experiment={experiment}", "model=tiny", cores=4)
    assert curves.plan(points) == curves.Plan(tuple(points), (), ())


def test_precision_and_budget_make_no_other_curve():
    [one] = planned("experiment=weak_scaling", "model=tiny", "nodes=2").curves
    [same] = planned("experiment=weak_scaling", "model=tiny", "nodes=2", "measure.precision_fraction=0.01").curves
    [other] = planned("experiment=weak_scaling", "model=tiny", "nodes=2", "measure.control=none").curves
    assert curves.config_hash(one.config) == curves.config_hash(same.config) != curves.config_hash(other.config)
