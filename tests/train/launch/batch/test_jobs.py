import math
from dataclasses import replace

import pytest

from tests.helpers.launches import planned
from train.config.schema import Launcher, System
from train.launch.batch import jobs
from train.launch.launchers.batch import clock
from train.launch.plan import curves
from train.launch.plan.make import Options
from train.launch.plan.runs import Known, Run, runs_of

WEAK = (
    *("experiment=weak_scaling", "nodes=2", "model=resnet50", "launcher=slurm", "results=/shared/results"),
    *("system=slurm", "system.cores_per_node=48", "measure.repeats=2"),
)


def runs(*overrides: str) -> list[Run]:
    plan = planned(*WEAK, *overrides)
    return runs_of(plan.points, plan.launcher)


def test_one_allocation_runs_all_points_or_each_point_has_its_job():
    [whole] = jobs.jobs(runs(), Known(), Options(WEAK))
    assert (whole.job.nodes, len(whole.runs)) == (2, 4)
    split = jobs.jobs(runs("launcher.split=true"), Known(), Options(WEAK, force=True))
    assert [(planned.job.nodes, len(planned.runs)) for planned in split] == [(1, 2), (2, 2)]
    assert split[1].job.command[-2:] == ("--only", "resnet50-nodes2")
    assert "--force" in split[1].job.command


def test_a_job_for_one_point_runs_that_one_alone():
    [planned] = jobs.jobs(runs()[:1], Known(), Options(WEAK, only="resnet50-nodes1"))
    assert planned.job.command[-2:] == ("--only", "resnet50-nodes1")


def test_nothing_to_do_needs_no_job():
    assert jobs.jobs([], Known(), Options(WEAK)) == []


def test_the_cost_is_taken_from_records_or_said_to_be_assumed():
    [assumed] = jobs.jobs(runs(), Known(), Options(WEAK))
    assert assumed.estimate_s == 4 * 300
    assert "about 20 min, 0.7 node-hours, each run taken as 300 s" in jobs.cost(assumed, Known())
    known = Known({"resnet50-nodes1": [100.0, 140.0]}, [100.0, 140.0])  # nodes2 has no record: it takes the mean of all
    [measured] = jobs.jobs(runs(), known, Options(WEAK))
    assert measured.estimate_s == 4 * 120
    assert "from 2 earlier runs" in jobs.cost(measured, known)


def test_the_cost_says_how_long_nodes_wait():
    """Four nodes: in rounds of 1, 2, 4 and 4 nodes 5/4 wait on average, alone 3 and 2 of them."""
    plan = planned(*WEAK, "nodes=4")
    nested = curves.plan(plan.points, 48, hosts_apart=True)
    [job] = jobs.jobs(runs_of([*nested.points, *nested.curves], plan.launcher), Known(), Options(WEAK))
    known = Known({"resnet50-rounds": [720.0], "resnet50-nodes1": [36.0], "resnet50-nodes2": [72.0]})
    assert jobs.idle_node_s(job, known) == 1.25 * 720
    assert jobs.separate_idle_node_s(job, known) == 3 * 36 + 2 * 72
    said = (
        "nodes wait for 0.2 node-hours of it in rounds, while fewer measure, and for 0.1 in launches of single points"
    )
    assert said in jobs.cost(job, known)
    [alone] = jobs.jobs(runs(), Known(), Options(WEAK))
    assert "nodes wait" not in jobs.cost(alone, Known())


def test_the_time_limit_leaves_room_and_keeps_to_the_site():
    config = runs()[0].point.config
    assert jobs.time_limit_s(config, 1000) == 2 * 1000 + 600
    assert jobs.time_limit_s(config, 100.25) == math.ceil(2 * 100.25 + 600)
    config = replace(config, system=System("site", 48, longest_s=1800))
    assert jobs.time_limit_s(config, 1000) == 1800
    config = replace(config, launcher=Launcher("slurm", 86400, time_limit_s=900))
    assert jobs.time_limit_s(config, 1000) == 900


@pytest.mark.parametrize(
    ("seconds", "text"), [(60, "00:01:00"), (61, "00:01:01"), (5400, "01:30:00"), (360000, "100:00:00")]
)
def test_a_time_limit_is_written_as_a_clock_shows_it(seconds, text):
    assert clock(seconds) == text
