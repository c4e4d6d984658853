"""One number of each kind that `diagnose` prints, from the ticks of real records, with NumPy and SciPy alone.

Of one launch of six rounds of one step, whose means have no interval; and of six launches of one node and six of two,
of four steps each. The formulas are those of docs/diagnose.md.
"""

import itertools
import json

import numpy as np
import pytest
from scipy import stats

from tests.helpers import GOLDEN


def records(folder, last="r*"):
    """The records of a folder of points, by repeat."""
    paths = sorted((GOLDEN / "results" / folder).glob(f"*/{last}/record.json"))
    return [json.loads(path.read_text()) for path in paths]


def printed(name):
    """The document that `diagnose` prints."""
    return json.JSONDecoder().raw_decode((GOLDEN / f"printed/{name}.json").read_text().partition("\n")[2])[0]


def ends(number):
    return [number["value"], number["low"], number["high"]]


def close(expected):
    return pytest.approx(expected, rel=1e-5)  # six digits are printed


def hodges_lehmann(values):
    pairs = itertools.combinations_with_replacement(values, 2)
    return np.median([(a + b) / 2 for a, b in pairs])


def test_the_parts_of_rounds_are_means_and_efficiencies_ratios_of_typical_rates():
    [run] = records("rounds/weak_scaling/resnet50-rounds", "r0.2")  # the newest generation
    # In s, by arm (one node, two nodes, without allreduce), round and rank.
    window_s, step, computing, taken = np.full((4, 3, 6, 2), np.nan)
    for rank in run["ranks"]:
        for window in rank["windows"]:
            at = window["arm"], window["round"], rank["rank"]
            window_s[at] = window["window_s"]
            step[at] = window["step_times_s"]["ticks"][0] / 1e9
            computing[at] = window["compute_times_s"]["ticks"][0] / 1e6
            taken[at] = window["cores"]["delay_s"] + window["cores"]["steal_s"]
    late = int(np.argmax(computing[1].mean(axis=0)))  # the rank whose gradients are ready last
    early, alone, alone_taken = 1 - late, step[0, :, 0], taken[0, :, 0]
    after = step[2] - computing[2]
    behind = computing[1].max(axis=1) - computing[1, :, early] + after[:, late] - after[:, early]
    slower = step[2, :, early] - alone - (taken[2, :, early] - alone_taken)
    shared = taken[2, :, late] - alone_taken
    waiting = behind - (taken[2, :, late] - taken[2, :, early])
    exchange = step[1].mean(axis=1) - alone - slower - shared - waiting
    one, two = window_s[0, :, 0], window_s[1].max(axis=1)
    parts = {"alone": alone, "slower": slower, "shared": shared, "waiting": waiting, "exchange": exchange,
             "rest": two - step[1].mean(axis=1)}  # fmt: skip
    point = printed("rounds/diagnose.weak_scaling")["curves"][0]["points"][-1]
    assert ends(point["measured_s"]) == [close(two.mean()), None, None]
    assert {name: number["value"] for name, number in point["parts_s"].items()} == {
        name: close(values.mean()) for name, values in parts.items()
    }
    efficiency = np.exp(hodges_lehmann(-np.log(two)) - hodges_lehmann(-np.log(one)))
    assert point["efficiency_throughput"]["value"] == close(efficiency)
    hidden = np.exp(hodges_lehmann(np.log(one / (two - exchange))))
    assert point["efficiency_without"]["exchange"]["value"] == close(hidden)


def test_the_parts_of_steps_of_launches_have_the_ends_of_student():
    def mean_ends(values):
        """Student's t over six launches, with one degree of freedom less."""
        half = stats.t.ppf(0.975, 4) * stats.sem(values)
        return close([np.mean(values), np.mean(values) - half, np.mean(values) + half])

    runs = [records(f"launches/strategies/{point}") for point in ("tiny-nodes1-one-rank-alone", "tiny-nodes2-horovod")]
    (one, one_ready), (two, ready) = (
        [np.array([[rank[name]["ticks"] for rank in run["ranks"]] for run in point]) / per_s
         for name, per_s in (("step_times_s", 1e9), ("compute_times_s", 1e6))]
        for point in runs
    )  # fmt: skip
    late = int(np.argmax(ready.mean(axis=(0, 2))))
    alone, others, step = one.mean(axis=(1, 2)), ready[:, 1 - late], two.mean(axis=(1, 2))
    waiting = (ready.max(axis=1) - others).mean(axis=1)
    slower = others.mean(axis=1) - one_ready.mean(axis=(1, 2))
    timed_s = np.array([max(rank["phases_s"]["timed"] for rank in run["ranks"]) / 4 for run in runs[1]])
    parts = {"alone": alone, "slower": slower, "waiting": waiting, "exchange": step - alone - slower - waiting,
             "rest": timed_s - step}  # fmt: skip
    point = printed("launches/diagnose.strategies")["curves"][0]["points"][-1]
    assert ends(point["measured_s"]) == mean_ends(timed_s)
    assert {name: ends(number) for name, number in point["parts_s"].items()} == {
        name: mean_ends(values) for name, values in parts.items()
    }
