from dataclasses import replace

import pytest

from record.schema import PlanPosition
from tests.helpers.configs import with_values
from tests.helpers.launch_plans import make_plan, plan_points
from train.config.checks import ConfigError
from train.launch.plan import curve_design
from train.launch.plan.planned_runs import Durations, Estimate, Run, differing_keys, estimate, runs_of, with_bases

WEAK = ("experiment=weak_scaling", "model=tiny", "nodes=1,2,3", "measure.repeats=3")


def runs(*overrides: str) -> list[Run]:
    plan = make_plan(*WEAK, *overrides)
    return runs_of(plan.points, plan.launcher)


def test_every_repeat_has_all_points_in_an_order_drawn_from_the_seed():
    plan = make_plan(*WEAK)

    def seeded(seed: int) -> list[Run]:
        points = [replace(point, config=with_values(point.config, {"seed": seed})) for point in plan.points]
        return runs_of(points, plan.launcher)

    ordered = seeded(7)
    assert [run.repeat for run in ordered] == [0] * 3 + [1] * 3 + [2] * 3
    orders = [tuple(run.point.config.nodes for run in ordered[first : first + 3]) for first in (0, 3, 6)]
    assert all(sorted(order) == [1, 2, 3] for order in orders)
    assert len({*orders}) > 1
    assert [run.order for run in ordered] == [PlanPosition(7, position, 9) for position in range(9)]
    assert seeded(7) == ordered
    point = ordered[8].point
    name = f"{point.name}/{point.config_hash[:8]}/r2"
    assert (ordered[8].name, ordered[8].label) == (name, f"{point.name} r2")
    assert [run.label for run in seeded(0)] != [run.label for run in ordered]


def test_curves_take_turns_and_come_before_single_points():
    plan = make_plan("experiment=weak_scaling", "model=tiny,resnet50", "nodes=2", "measure.separate_launches=true")
    nested = curve_design.design(plan.points, 2)
    ordered = runs_of([*nested.points, *nested.curves], plan.launcher)
    names = [run.point.name for run in ordered]
    assert [set(names[first : first + 2]) for first in (0, 4, 6)] == [{"tiny-rounds", "resnet50-rounds"}] * 3
    assert set(names[2:4]) == {"tiny-nodes1", "resnet50-nodes1"}
    assert [run.repeat for run in ordered] == [0] * 4 + [1, 1, 2, 2]


@pytest.mark.parametrize(("first", "nodes"), [("small", [1, 2]), ("large", [2, 1])])
def test_under_slurm_the_order_is_fixed(first, nodes):
    ordered = runs("launcher=slurm", "system.cores_per_node=4", "nodes=1,2", f"launcher.order={first}_first")
    assert [run.point.config.nodes for run in ordered] == nodes * 3
    assert ordered[5].order == PlanPosition(None, 5, 6)


def test_a_run_is_expected_to_take_what_its_point_took_or_all_points():
    first, second, *_ = runs()
    durations = Durations()
    assert (estimate([], durations), Estimate().text()) == (Estimate(), "nothing left")
    assert estimate([first, second], durations).text() == "2 min, assumed"  # two of launcher.assumed_run_s=60
    durations.add(first, 60.0)
    durations.add(first, 80.0)
    assert [estimate([run], durations) for run in (first, second)] == [Estimate(70.0)] * 2
    assert estimate([first, second], durations).text() == "about 2 min"
    plan = make_plan("experiment=weak_scaling", "model=tiny", "nodes=2", "measure.separate_launches=true")
    nested = curve_design.design(plan.points, 2)
    single, in_rounds = (runs_of(points, plan.launcher)[0] for points in (nested.points, nested.curves))
    durations = Durations()
    assert estimate([in_rounds], durations) == Estimate(160 / 3)  # its share of the budget of the curve
    durations.add(in_rounds, 200.0)
    assert estimate([in_rounds, single], durations) == Estimate(200.0)  # the other is within the budget


@pytest.mark.parametrize(
    ("arms", "keys"),
    [
        ([], ()),
        (["nodes=2 tracking.notes=a=b", "nodes=2"], ("tracking.notes",)),  # all have two nodes
        (
            ["nodes=1 distribution=none", "nodes=1", "nodes=2 distribution.allreduce=false", "nodes=2"],
            ("nodes", "distribution"),
        ),
    ],
)
def test_the_keys_in_which_arms_differ(arms, keys):
    assert differing_keys({overrides: overrides.split() for overrides in arms}) == keys


CONTROL, ALONE = {"distribution.allreduce": False}, {"distribution.backend": "none"}
LINK = "system.link_mbit_per_s"
LINKED = CONTROL | {"launcher.separate_networks": True}


def roles_with_bases(*arms: tuple) -> list[str | None]:
    """The roles that `with_bases` gives arms: each is a number of nodes, settings, and a role if one is stated."""
    points, [point, _] = [], plan_points("experiment=weak_scaling", "model=tiny", "nodes=2")
    for nodes, settings, *role in arms:
        config = with_values(point.config, {"nodes": nodes, "global_batch": nodes, **settings})
        swept = {LINK: config.system.link_mbit_per_s}
        points.append(replace(point, config=config, swept=swept, arm=f"on {nodes}", role=[*role, "point"][0]))
    return [point.role for point in with_bases(points)]


@pytest.mark.parametrize(
    ("arms", "roles"),
    [
        ([(2, {}), (2, CONTROL), (1, ALONE)], ["point", "base", "point"]),  # each among arms on as many ranks
        ([(2, {}, "base"), (2, CONTROL)], ["base", "point"]),
        ([(2, {}), (2, CONTROL, "control")], ["point", "control"]),
        ([(1, LINKED | {LINK: 100.0}), (2, LINKED | {LINK: 300.0})], ["point", "base"]),  # on any ranks over any links
    ],
)
def test_the_base_of_arms_is_the_stated_one_else_the_one_with_the_least_work_unless_there_is_a_control(arms, roles):
    assert roles_with_bases(*arms) == roles


def test_two_bases_are_refused():
    with pytest.raises(ConfigError, match=r"^roles=on 1, on 2: one base is needed of the arms on as many ranks$"):
        roles_with_bases((1, LINKED, "base"), (2, LINKED, "base"))
