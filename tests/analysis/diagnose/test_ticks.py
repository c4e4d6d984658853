"""One number of each kind that `diagnose` prints, from the ticks of a real record, with NumPy alone."""

import itertools
import json
import re

import numpy as np
import pytest

from tests.helpers import ROOT

GOLDEN = ROOT / "tests/golden"


@pytest.fixture(scope="module")
def ticks():
    """Times of six rounds of one step, in ms: by arm (one node, two nodes, without allreduce), round and rank."""
    [path] = (GOLDEN / "results/rounds/weak_scaling/resnet50-rounds").glob(
        "*/r0.2/record.json"
    )  # the newest generation
    arrays = {name: np.full((3, 6, 2), np.nan) for name in ("window", "step", "computing", "taken")}
    for rank in json.loads(path.read_text())["ranks"]:
        for window in rank["windows"]:
            at = window["arm"], window["round"], rank["rank"]
            arrays["window"][at] = 1e3 * window["window_s"]
            [step], [computing] = (window[name]["ticks"] for name in ("step_times_s", "compute_times_s"))
            arrays["step"][at], arrays["computing"][at] = step / 1e6, computing / 1e3
            arrays["taken"][at] = 1e3 * (window["cores"]["delay_s"] + window["cores"]["steal_s"])
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
    return {"computing, as one node alone does": alone, "slower computing beside others": slower,
            "cores shared with other processes": shared, "waiting for the slowest rank": waiting,
            "exposed exchange": exchange, "barrier after the steps": rest}  # fmt: skip


@pytest.fixture(scope="module")
def printed():
    """The last column of the printed table, by the name of the line."""
    text = (GOLDEN / "printed/rounds/diagnose.weak_scaling.txt").read_text().replace("fast as  ", "fast as alone  ")
    lines = [re.split(r"\s{2,}", line.strip()) for line in text.split("\n\n")[1].splitlines()]
    return {line[0]: line[-1] for line in lines}


def hodges_lehmann(values):
    pairs = itertools.combinations_with_replacement(values, 2)
    return np.median([(a + b) / 2 for a, b in pairs])


def number(text):
    return float(re.match(r"-?[\d.]+", text)[0])


def test_the_parts_and_the_step_are_means_over_rounds(ticks, parts, printed):
    measured = ticks["window"][1].max(axis=1)
    assert sum(parts.values()) == pytest.approx(measured)
    for name, values in (parts | {"measured step": measured}).items():
        assert number(printed[name]) == pytest.approx(values.mean(), rel=5e-3), name
    share = parts["exposed exchange"].mean() / measured.mean()
    assert printed["exposed exchange"].endswith(f"{100 * share:.0f} %")


def test_efficiencies_are_ratios_of_typical_rates(ticks, parts, printed):
    one, two = ticks["window"][0, :, 0], ticks["window"][1].max(axis=1)
    efficiency = np.exp(hodges_lehmann(-np.log(two)) - hodges_lehmann(-np.log(one)))
    assert number(printed["efficiency by throughput"]) == pytest.approx(efficiency, abs=5e-4)
    hidden = np.exp(hodges_lehmann(np.log(one / (two - parts["exposed exchange"]))))
    assert number(printed["efficiency, all exchange hidden"]) == pytest.approx(hidden, abs=5e-4)
