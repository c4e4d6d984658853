import time

import pytest

from train.config.compose import load
from train.config.schema import RoundArm, World
from train.launch.supervise import live
from train.record import protocol
from train.record.parts import PartWriter
from train.record.record import Window

ARMS = [
    RoundArm("nodes1", nodes=1, ranks=1, batch_per_rank=4, allreduce=True),
    RoundArm("nodes2", nodes=2, ranks=2, batch_per_rank=4, allreduce=True),
    RoundArm("nodes2-without-allreduce", nodes=2, ranks=2, batch_per_rank=4, allreduce=False),
]


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
    assert live.speedups(tmp_path, config) == "round 3: nodes2"
    add_rounds(tmp_path, range(3, 6))
    assert live.speedups(tmp_path, config) == "round 6: nodes2 1.6x (1.6 to 1.6)"


def test_it_is_told_now_and_then(config, tmp_path, monkeypatch):
    told = []
    add_rounds(tmp_path, range(6))
    look = live.teller(tmp_path, config, told.append)
    look()
    assert told == []
    monkeypatch.setattr(time, "monotonic", lambda: 1e9)
    look()
    look()
    assert told == ["round 6: nodes2 1.6x (1.6 to 1.6)"]


def test_of_a_single_point_nothing_is_told(tmp_path, monkeypatch):
    look = live.teller(tmp_path, load(["model=tiny"]), pytest.fail)
    monkeypatch.setattr(time, "monotonic", lambda: 1e9)
    look()


def test_of_worlds_the_first_rank_of_each_is_read(config, tmp_path):
    one = {"nodes": 1, "ranks": 1, "batch_per_rank": 4, "allreduce": True}
    config.rounds = [RoundArm("without", **one), RoundArm("with", **one, world=1)]
    config.worlds = [World({"distribution.backend": "none"}, 0, 1), World({}, 1, 1)]
    for rank, window_s in ((0, 2.0), (1, 2.5)):
        part = PartWriter(protocol.part_path(tmp_path, rank, "n1", 7), rank=rank)
        part.add(windows=[Window(number, rank, window_s, [1.0, 1.0]) for number in range(6)])
    assert live.speedups(tmp_path, config) == "round 6: with 0.8x (0.8 to 0.8)"
