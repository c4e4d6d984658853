import math

import pytest

from analysis.experiments.arms import link_rates
from tests.helpers.run_records import NO_ALLREDUCE, Arm, make_rounds, save
from tests.helpers.studies import with_link


def test_exposed_communication_is_what_a_step_takes_longer_than_the_control(results):
    for link, step_s in ((100, 0.9), (1000, 0.5), (None, 0.4)):
        results.add(step_s=step_s, **with_link(link))
    assert link_rates(results.table()).empty  # a model without a control is left out
    for nodes in (4, 1):
        results.add(step_s=0.3, **with_link(None, nodes), **NO_ALLREDUCE)
    points = link_rates(results.table())
    assert points["link_mbit_per_s"].tolist() == pytest.approx([100, 1000, math.nan], nan_ok=True)
    assert points["exposed_s"].tolist() == pytest.approx([0.6, 0.2, 0.1])
    assert points["share"].tolist() == pytest.approx([1 / 3, 0.6, 0.75])
    assert points["min_s"].tolist() == pytest.approx([0.48, 0.048, 0])
    assert (points["series"].nunique(), points["invalid"].any()) == (1, False)


def test_in_rounds_a_link_is_compared_with_the_control_of_its_round(results):
    """A machine whose speed varies by half: the differences are 0.6 to 1.1 s, and all shares are 1/3."""
    arms = (Arm(4, allreduce=False, batch_per_rank=8), Arm(4, batch_per_rank=8))
    rounds = [(step_s, 3 * step_s) for step_s in (0.30, 0.50, 0.35, 0.55, 0.40, 0.45)]
    run = make_rounds(rounds, arms, **with_link(100), arm_keys=["distribution.allreduce"])
    names = {"without-allreduce": None, "with-allreduce": 100}
    for arm, (name, link) in zip(run.config["rounds"], names.items(), strict=True):
        arm |= {"arm": name, "link_mbit_per_s": link, "swept": with_link(link)["swept"]}
    save(run, results.folder)
    [point] = link_rates(results.table()).to_dict("records")
    assert (point["link_mbit_per_s"], point["n"]) == (100, 6)
    assert [point[f"share{end}"] for end in ("", "_low", "_high")] == pytest.approx([1 / 3] * 3)
    assert [point[f"exposed_s{end}"] for end in ("", "_low", "_high")] == pytest.approx(
        [0.8367, 0.3086, 1.9014], abs=1e-3
    )
