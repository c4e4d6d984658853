"""One number of each kind that `diagnose` prints, from the ticks of real records, with NumPy and SciPy alone.

Of one launch of six rounds of one step, whose means have no interval; and of six launches of one node and six of two,
of four steps each.
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


def hodges_lehmann(values):
    pairs = itertools.combinations_with_replacement(values, 2)
    return np.median([(a + b) / 2 for a, b in pairs])


def close(expected):
    return pytest.approx(expected, rel=1e-5)  # six digits are printed


@pytest.fixture(scope="module")
def ticks():
    """Times in s: by arm (one node, two nodes, without allreduce), round and rank."""
    [run] = records("rounds/weak_scaling/resnet50-rounds", "r0.2")  # the newest generation
    arrays = {name: np.full((3, 6, 2), np.nan) for name in ("window", "step", "computing", "taken")}
    for rank in run["ranks"]:
        for window in rank["windows"]:
            at = window["arm"], window["round"], rank["rank"]
            arrays["window"][at] = window["window_s"]
            [step], [computing] = (window[name]["ticks"] for name in ("step_times_s", "compute_times_s"))
            arrays["step"][at], arrays["computing"][at] = step / 1e9, computing / 1e6
            arrays["taken"][at] = window["cores"]["delay_s"] + window["cores"]["steal_s"]
    return arrays


@pytest.fixture(scope="module")
def parts(ticks):
    """The parts of the step of two nodes in each round, by the formulas of docs/diagnose.md."""
    step, computing, taken = ticks["step"], ticks["computing"], ticks["taken"]
    late = int(np.argmax(computing[1].mean(axis=0)))  # the rank whose gradients are ready last
    early, alone, alone_taken = 1 - late, step[0, :, 0], taken[0, :, 0]
    after = step[2] - computing[2]
    behind = computing[1].max(axis=1) - computing[1, :, early] + after[:, late] - after[:, early]
    slower = step[2, :, early] - alone - (taken[2, :, early] - alone_taken)
    shared = taken[2, :, late] - alone_taken
    waiting = behind - (taken[2, :, late] - taken[2, :, early])
    exchange = step[1].mean(axis=1) - alone - slower - shared - waiting
    rest = ticks["window"][1].max(axis=1) - step[1].mean(axis=1)
    return {"alone": alone, "slower": slower, "shared": shared, "waiting": waiting, "exchange": exchange,
            "rest": rest}  # fmt: skip


@pytest.fixture(scope="module")
def point():
    return printed("rounds/diagnose.weak_scaling")["curves"][0]["points"][-1]


def test_the_parts_and_the_step_are_means_over_rounds(ticks, parts, point):
    measured = ticks["window"][1].max(axis=1)
    assert sum(parts.values()) == pytest.approx(measured)
    assert ends(point["measured_s"]) == [close(measured.mean()), None, None]
    assert {name: number["value"] for name, number in point["parts_s"].items()} == {
        name: close(values.mean()) for name, values in parts.items()
    }


def test_efficiencies_are_ratios_of_typical_rates(ticks, parts, point):
    one, two = ticks["window"][0, :, 0], ticks["window"][1].max(axis=1)
    efficiency = np.exp(hodges_lehmann(-np.log(two)) - hodges_lehmann(-np.log(one)))
    assert point["efficiency_throughput"]["value"] == close(efficiency)
    hidden = np.exp(hodges_lehmann(np.log(one / (two - parts["exchange"]))))
    assert point["efficiency_without"]["exchange"]["value"] == close(hidden)


@pytest.fixture(scope="module")
def runs():
    points = ("tiny-nodes1-one-rank-alone", "tiny-nodes2-horovod")
    return [records(f"launches/strategies/{point}") for point in points]


@pytest.fixture(scope="module")
def parts_of_launches(runs):
    """The parts of the step of two nodes in each repeat, without an arm without allreduce."""
    (one, one_ready), (two, ready) = (
        [np.array([[rank[name]["ticks"] for rank in run["ranks"]] for run in point]) / per_s
         for name, per_s in (("step_times_s", 1e9), ("compute_times_s", 1e6))]
        for point in runs
    )  # fmt: skip
    late = int(np.argmax(ready.mean(axis=(0, 2))))
    alone, others = one.mean(axis=(1, 2)), ready[:, 1 - late]
    waiting = (ready.max(axis=1) - others).mean(axis=1)
    slower = others.mean(axis=1) - one_ready.mean(axis=(1, 2))
    step = two.mean(axis=(1, 2))
    rest = timed_s(runs[1]) - step
    return {"alone": alone, "slower": slower, "waiting": waiting, "exchange": step - alone - slower - waiting,
            "rest": rest}  # fmt: skip


def timed_s(point):
    return np.array([max(rank["phases_s"]["timed"] for rank in run["ranks"]) / 4 for run in point])


def mean_ends(values):
    """Student's t over six launches, with one degree of freedom less."""
    half = stats.t.ppf(0.975, 4) * stats.sem(values)
    return close([np.mean(values), np.mean(values) - half, np.mean(values) + half])


@pytest.fixture(scope="module")
def document():
    return printed("launches/diagnose.strategies")


def test_the_ends_of_means_are_those_of_student_over_launches(runs, parts_of_launches, document):
    point = document["curves"][0]["points"][-1]
    assert ends(point["measured_s"]) == mean_ends(timed_s(runs[1]))
    assert {name: ends(number) for name, number in point["parts_s"].items()} == {
        name: mean_ends(values) for name, values in parts_of_launches.items()
    }


def test_the_ends_of_an_efficiency_are_those_of_student_over_robust_ratios(runs, document):
    """Their scatter from mean distances; as many independent launches as neighbours that are alike leave."""
    one, two = (-np.log(timed_s(point)) for point in runs)
    centre, ratios = hodges_lehmann(two) - hodges_lehmann(one), two - one
    distances = np.abs(ratios - hodges_lehmann(ratios))
    square = np.pi / 2 * (np.minimum(distances, 6 * np.median(distances)).sum() ** 2 / 30) / 0.95
    ranks = stats.rankdata(ratios) - 3.5
    lag1, lag2 = (ranks[:-lag] @ ranks[lag:] / (ranks @ ranks) for lag in (1, 2))
    lag1, lag2 = (r + (1 + 3 * max(r, 0)) / 6 for r in (lag1, lag2))
    n = 6 / max(1, 1 + 4 / 3 * lag1 + 2 / 3 * lag2, (1 + lag1) / (1 - lag1))
    half = stats.t.ppf(0.975, max(1, n - 1)) * np.sqrt(square / n)
    away = ratios - hodges_lehmann(ratios)
    expected = np.exp([centre, centre - min(half, -away.min()), centre + min(half, away.max())])
    assert ends(document["curves"][0]["points"][-1]["efficiency_throughput"]) == close(expected)


def test_the_parts_of_a_job_are_means_over_launches(runs, document):
    """The phases of the rank with the longest wall time."""
    job = next(job for job in document["jobs"] if job["series"] == "horovod")
    assert ends(job["job_s"]) == mean_ends([run["job_s"] for run in runs[1]])
    wall = ("broadcast", "first_step", "warm_up", "timed")
    ranks = [max((rank["phases_s"] for rank in run["ranks"]), key=lambda phases: sum(map(phases.get, wall)))
             for run in runs[1]]  # fmt: skip
    parts = {"start-up": ("start", "import", "init", "data", "build", "broadcast", "first_step"),
             "steps": ("warm_up", "timed"), "evaluation": ("evaluate",), "exit": ("exit",)}  # fmt: skip
    for part, names in parts.items():
        seconds = [sum(map(phases_s.get, names)) for phases_s in ranks]
        assert ends(job["parts_s"][part]) == mean_ends(seconds), part
