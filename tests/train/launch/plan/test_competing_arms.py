from math import exp

import pytest

from record.run_files import write_file
from record.schema import RECORD_NAME, dumps
from tests.helpers.bare_record import bare_record
from tests.helpers.configs import with_values
from train.config.compose import load
from train.launch.plan import competing_arms
from train.launch.plan.planned_runs import PlannedPoint, Run
from train.launch.plan.queue import Queue


def rates(**logs):
    """Images/s of each arm in each launch, from their logarithms, times a drift of the machine that all share."""
    drift = (1.0, 1.5, 0.7, 1.2, 0.9)
    return {arm: {n: drift[n] * exp(value) for n, value in enumerate(values)} for arm, values in logs.items()}


@pytest.mark.parametrize(("away", "e", "is_dropped"), [(0.0512, 0.01, True), (0.0510, 0.01, False), (0.0, 0.0, False)])
def test_a_significantly_slower_arm_is_dropped_whatever_the_machine_does_meanwhile(away, e, is_dropped):
    """The squares are 4 e^2, of 4 degrees, so the error of a difference is e sqrt(2 4 / 4 / 3) = 0.8165 e.

    Of 0.05, 10 looks and 3 pairs leave 1/300 each, at which Student's t of 4 degrees is 6.254: together 5.107 e.
    """
    result = competing_arms.slower_arms(rates(base=[e, -e, 0.0], fast=[-e, e, 0.0], slow=[-away] * 3))
    assert result == ({"slow": pytest.approx(1 - exp(-away))} if is_dropped else {})


def test_two_launches_drop_no_arm_nor_do_three_launches_of_two_arms():
    assert competing_arms.slower_arms(rates(slow=[-1.0] * 2, **{f"arm{n}": [0.0] * 2 for n in range(5)})) == {}
    assert competing_arms.slower_arms(rates(base=[0.0] * 3, slow=[-1.0] * 3)) == {}
    five = competing_arms.slower_arms(rates(base=[0.0] * 5, slow=[-1.0] * 5))
    assert five == {"slow": pytest.approx(1 - exp(-1))}
    assert competing_arms.slower_arms({}) == {}


def test_a_slower_arm_stays_dropped_and_the_others_are_compared_unless_it_is_the_base_or_none_competes(tmp_path):
    """The second arm is 1.8 e slower, with differences of squares 4 e^2: an error of 0.447 e after 5, 0.365 e after 6.

    Of two arms Student's t at 0.01 is 4.604 with 4 degrees, 4.032 with 5: beyond 2.06 e, and then 1.47 e.
    """
    config = load([f"results={tmp_path}"])
    slower = [pytest.approx(1 - exp(-0.018)), pytest.approx(1 - exp(-1))]

    def contest(repeats=6, compete=True, base=""):
        settings = with_values(config, {"measure.compete": compete, "measure.repeats": repeats})
        roles = {arm: "base" if arm == base else "point" for arm in ("fast", "second", "slow")}
        return [Run(PlannedPoint(arm, (), settings, {}, arm, role, ()), 0) for arm, role in roles.items()]

    def launch(run, *logs, first=0):
        for repeat, log in enumerate(logs, first):
            record = bare_record(repeat=repeat, summary={"images_per_s": exp(log)})
            write_file(run.home / f"r{repeat}" / RECORD_NAME, dumps(record))

    def dropped(**settings):
        runs = contest(**settings)
        return [competing_arms.slower_by(run, runs) for run in runs]

    fast, second, slow = runs = contest()
    launch(fast, *[0.0] * 6)
    launch(second, -0.008, -0.028, -0.008, -0.028, -0.018, -0.018)
    launch(slow, *[-1.0] * 3)
    assert dropped() == [None, *slower]
    assert dropped(repeats=5) == [None, None, slower[1]]  # a sixth launch does not count
    assert dropped(base="slow") == [None, slower[0], None]
    assert dropped(compete=False) == [None] * 3
    launch(slow, *[-1.0] * 3, first=3)
    assert dropped() == [None, *slower]
    assert Queue(runs, force=False).skip_reason(slow) == "slow is significantly slower, by about 63 %"
