import time

import pytest

from train.config.compose import load
from train.config.schema import RoundArm
from train.launch.supervise import live
from train.record import protocol
from train.record.parts import PartWriter
from train.record.record import Window

ARMS = [RoundArm("one", 1, 4, True), RoundArm("two", 2, 4, True), RoundArm("two-without-allreduce", 2, 4, False)]


@pytest.fixture
def config():
    made = load(["model=tiny", "nodes=2", "batch_per_rank=4"])
    made.rounds = ARMS
    return made


def add_rounds(folder, numbers):
    part = PartWriter(protocol.part_path(folder, 0, "n1", 7), rank=0)
    for number in numbers:  # 2 steps of 4 images in 2 s; of 8 images in 2.5 s
        part.add(windows=[Window(number, 0, 2.0, [1.0, 1.0]), Window(number, 1, 2.5, [1.0, 1.0])])


def test_the_speedup_so_far_is_told_with_its_interval(config, tmp_path):
    assert live.speedups(tmp_path, config) == ""
    add_rounds(tmp_path, range(3))
    assert live.speedups(tmp_path, config) == "round 3: 2 nodes"
    add_rounds(tmp_path, range(3, 6))
    assert live.speedups(tmp_path, config) == "round 6: 2 nodes 1.6x (1.6 to 1.6)"


def test_it_is_told_now_and_then(config, tmp_path, monkeypatch):
    told = []
    add_rounds(tmp_path, range(6))
    look = live.teller(tmp_path, config, told.append)
    look()
    assert told == []
    monkeypatch.setattr(time, "monotonic", lambda: 1e9)
    look()
    look()
    assert told == ["round 6: 2 nodes 1.6x (1.6 to 1.6)"]


def test_of_a_single_point_nothing_is_told(tmp_path, monkeypatch):
    look = live.teller(tmp_path, load(["model=tiny"]), pytest.fail)
    monkeypatch.setattr(time, "monotonic", lambda: 1e9)
    look()
