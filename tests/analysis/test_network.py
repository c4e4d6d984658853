import math

import pytest

from analysis import network, tables

NO_ALLREDUCE = {"distribution": {"backend": "horovod", "allreduce": False, "controller": "gloo"}}


def emulated(link: float | None) -> dict:
    system = {"name": "laptop", "cores_per_node": 1, "cpus_per_node": 0.4, "link_mbit_per_s": link}
    launcher = {"name": "emulated", "flat_within_fraction": 0.1}
    model = {"name": "alexnet", "image_size": 67, "parameters": 1_000_000}
    return {"experiment": "network_sweep", "system": system, "launcher": launcher, "model": "alexnet"} | {
        "nodes": 4, "batch_per_rank": 8, "of_model": model,
    }  # fmt: skip


def test_the_least_a_link_needs():
    # 2 x 3/4 x 4 MB = 6 MB = 48 Mbit, at 100 Mbit/s
    assert network.least_s(1_000_000, 4, 100) == pytest.approx(0.48)
    assert network.least_s(1_000_000, 1, 100) == 0
    assert network.least_s(1_000_000, 4, math.nan) == 0


def test_exposed_communication_is_what_a_step_takes_longer_than_the_control(results):
    for link, step_s in ((100, 0.9), (1000, 0.5), (None, 0.4)):
        results.add(step_s=step_s, **emulated(link))
    results.add(step_s=0.3, **emulated(None), **NO_ALLREDUCE)
    results.add(step_s=0.3, **emulated(None) | {"nodes": 1}, **NO_ALLREDUCE)
    found = network.sweep(tables.own(results.folder).table)
    assert found["link"].tolist() == ["100", "1000", "no limit"]
    assert found["exposed_s"].tolist() == pytest.approx([0.6, 0.2, 0.1])
    assert found["share"].tolist() == pytest.approx([1 / 3, 0.6, 0.75])
    assert found["least_s"].tolist() == pytest.approx([0.48, 0.048, 0])
    assert found["series"].nunique() == 1
    assert not found["lost"].any()


def test_a_model_without_a_control_is_left_out(results):
    results.add(step_s=0.9, **emulated(100))
    assert network.sweep(tables.own(results.folder).table).empty
