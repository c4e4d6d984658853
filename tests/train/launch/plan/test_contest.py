from dataclasses import replace

import numpy as np
import pytest

from tests.helpers.configs import changed
from tests.helpers.launches import points_of
from tests.helpers.own_records import make_record
from train.launch.plan import launches
from train.launch.plan.runs import Run
from train.record import files, record


def rates(launches, **arms):
    """Images/s of each arm, times a drift of the machine that all share and a scatter of 1 %."""
    scatter = np.random.default_rng(0).lognormal(0, 0.01, (len(arms), launches))
    drift = [1.0, 1.5, 0.7, 1.2, 0.9, 1.1][:launches]
    return {
        name: {repeat: rate * drift[repeat] * scatter[nth, repeat] for repeat in range(launches)}
        for nth, (name, rate) in enumerate(arms.items())
    }


def test_a_significantly_slower_arm_is_dropped_whatever_the_machine_does_meanwhile():
    result = launches.slower_arms(rates(3, base=10.0, fast=10.2, slow=7.0))
    assert list(result) == ["slow"]
    assert result["slow"] == pytest.approx(1 - 7 / 10.2, abs=0.03)


def test_two_launches_tell_nothing_nor_do_two_arms_after_three():
    assert launches.slower_arms(rates(2, base=10.0, fast=10.2, slow=7.0)) == {}
    assert launches.slower_arms(rates(3, base=10.0, slow=7.0)) == {}
    assert launches.slower_arms(rates(5, base=10.0, slow=7.0)) != {}
    assert launches.slower_arms({}) == {}


def test_of_equal_arms_none_is_dropped_in_most_contests():
    """Ten equal arms, looked at after each of 3 to 10 launches; every tenth launch is disturbed, by a third."""
    random, contests, wrong = np.random.default_rng(1), 150, 0
    for _ in range(contests):
        times = random.lognormal(0, 0.05, (10, 10)) * np.where(random.random((10, 10)) < 0.1, 1.33, 1.0)
        result = {str(arm): dict(enumerate(1 / of)) for arm, of in enumerate(times)}
        looks = ({arm: dict(list(of.items())[:n]) for arm, of in result.items()} for n in range(3, 11))
        wrong += any(launches.slower_arms(look) for look in looks)
    assert wrong / contests <= 0.05


@pytest.fixture
def runs(tmp_path):
    """The runs of a contest of three arms, with records of three repeats; the third arm takes twice as long."""
    points = points_of("experiment=tune", "model=tiny", "nodes=2", "measure.repeats=6", f"results={tmp_path}")
    arms = {"as-configured": 1.0, "gradients-grouped": 0.99, "gradients-separate": 2.0}
    kept = [point for point in points if point.arm in arms]
    made = [Run(point, repeat) for repeat in range(6) for point in kept]
    scatter = np.random.default_rng(0).uniform(0.99, 1.01, len(made))
    for run, factor in zip(made[:9], scatter, strict=False):
        of = make_record(nodes=2, step_s=arms[run.point.arm] * factor, repeat=run.repeat)
        files.write_once(run.home / f"r{run.repeat}" / "record.json", record.dumps(of))
    return made


def test_the_arm_that_is_slower_is_launched_no_more(runs):
    result = {run.point.arm: launches.slower_by(run, runs) for run in runs[9:12]}
    assert result["as-configured"] is None
    assert result["gradients-grouped"] is None
    assert result["gradients-separate"] == pytest.approx(0.5, abs=0.05)


def test_the_arm_that_the_others_are_compared_with_is_never_dropped(runs):
    slow = [
        replace(run, point=replace(run.point, role="base")) for run in runs if run.point.arm == "gradients-separate"
    ]
    assert launches.slower_by(slow[3], [run for run in runs if run.point.arm != "gradients-separate"] + slow) is None


def test_without_a_contest_nothing_is_dropped(runs):
    apart = [
        replace(run, point=replace(run.point, config=changed(run.point.config, {"measure.compete": False})))
        for run in runs
    ]
    assert {launches.slower_by(run, apart) for run in apart} == {None}
