from dataclasses import replace

import numpy as np
import pytest

from record.run_files import write_file
from record.schema import RECORD_NAME, dumps
from tests.helpers.configs import with_values
from tests.helpers.run_records import make_record, update_derived
from train.config.compose import load
from train.launch.plan import competing_arms
from train.launch.plan.planned_runs import PlannedPoint, Run


def rates(count, **arms):
    """Images/s of each arm, times a drift of the machine that all share and a scatter of 1 %."""
    scatter = np.random.default_rng(0).lognormal(0, 0.01, (len(arms), count))
    drift = [1.0, 1.5, 0.7, 1.2, 0.9, 1.1][:count]
    return {
        name: {repeat: rate * drift[repeat] * scatter[nth, repeat] for repeat in range(count)}
        for nth, (name, rate) in enumerate(arms.items())
    }


def test_a_significantly_slower_arm_is_dropped_whatever_the_machine_does_meanwhile():
    result = competing_arms.slower_arms(rates(3, base=10.0, fast=10.2, slow=7.0))
    assert result == {"slow": pytest.approx(1 - 7 / 10.2, abs=0.03)}


def test_two_launches_drop_no_arm_nor_do_three_launches_of_two_arms():
    assert competing_arms.slower_arms(rates(2, base=10.0, fast=10.2, slow=7.0)) == {}
    assert competing_arms.slower_arms(rates(3, base=10.0, slow=7.0)) == {}
    assert competing_arms.slower_arms(rates(5, base=10.0, slow=7.0)) != {}
    assert competing_arms.slower_arms({}) == {}


def test_no_equal_arm_is_dropped_in_most_contests():
    """Compare ten equal arms after each of 3 to 10 launches. Every tenth launch takes a third longer."""
    random, contests, wrong = np.random.default_rng(1), 150, 0
    for _ in range(contests):
        times = random.lognormal(0, 0.05, (10, 10)) * np.where(random.random((10, 10)) < 0.1, 1.33, 1.0)
        stages = ({str(arm): dict(enumerate(1 / s[:n])) for arm, s in enumerate(times)} for n in range(3, 11))
        wrong += any(competing_arms.slower_arms(stage) for stage in stages)
    assert wrong / contests <= 0.05


@pytest.fixture
def runs(tmp_path):
    """The runs of a contest of three arms, with records of three repeats; the third arm takes twice as long."""
    config = with_values(load([f"results={tmp_path}"]), {"measure.compete": True, "measure.repeats": 6})
    arms = {"as-configured": 1.0, "gradients-grouped": 0.99, "gradients-separate": 2.0}
    runs = [Run(PlannedPoint(arm, (), config, arm=arm), repeat) for repeat in range(6) for arm in arms]
    scatter = np.random.default_rng(0).uniform(0.99, 1.01, len(runs))
    for run, factor in zip(runs[:9], scatter, strict=False):
        record = update_derived(make_record(nodes=2, step_s=arms[run.point.arm] * factor, repeat=run.repeat))
        write_file(run.home / f"r{run.repeat}" / RECORD_NAME, dumps(record))
    return runs


def test_the_slower_arm_is_launched_no_more_unless_the_others_are_compared_with_it_or_none_competes(runs):
    def dropped(**changes):
        points = {run.point.arm: run.point for run in runs}
        points["gradients-separate"] = replace(points["gradients-separate"], **changes)
        changed = [replace(run, point=points[run.point.arm]) for run in runs]
        return {run.point.arm: competing_arms.slower_by(run, changed) for run in changed[9:12]}

    nobody = dict.fromkeys(("as-configured", "gradients-grouped", "gradients-separate"))
    assert dropped() == nobody | {"gradients-separate": pytest.approx(0.5, abs=0.05)}
    assert dropped(role="base") == nobody
    assert dropped(config=with_values(runs[8].point.config, {"measure.compete": False})) == nobody
