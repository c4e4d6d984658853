import sys
from pathlib import Path

import pytest
from PIL import Image

from tests.helpers.launches import points_of
from train.config.checks import ConfigError
from train.launch.plan import input_check
from train.launch.plan.point import Point

CLASSES = ("freshapples", "freshbanana", "freshoranges", "rottenapples", "rottenbanana", "rottenoranges")


def fruit(root: Path) -> Path:
    """Two training and one test image a class."""
    for folder, count in (("train", 2), ("test", 1)):
        for name in CLASSES:
            (root / folder / name).mkdir(parents=True)
            for number in range(count):
                Image.new("RGB", (20, 20)).save(root / folder / name / f"{number}.png")
    return root


def points(folder: Path, *more: str) -> list[Point]:
    given = ["experiment=fruit", f"dataset.data_dir={folder}", "model=tiny", "nodes=2", "batch_per_rank=3", *more]
    return points_of(*given, "dataset.training_samples=null")


def test_points_that_read_the_same_are_checked_once_at_the_largest_global_batch(tmp_path):
    chosen = input_check.to_check(points(tmp_path, "dataset.on_damaged=skip,error"))
    assert [(p.config.dataset.on_damaged, p.config.global_batch) for p in chosen] == [("skip", 6), ("error", 6)]


def test_synthetic_data_and_fresh_weights_need_no_check():
    assert input_check.to_check(points_of("experiment=weak_scaling", "nodes=2")) == []


def test_data_on_other_hosts_is_left_to_the_ranks(tmp_path):
    (point, *_) = points(tmp_path / "far", "nodes=2")
    assert input_check.check([point], hosts_apart=True) == [
        f"{point.name}: data and weights are checked by the ranks: "
        f"dataset.data_dir={tmp_path}/far is not on this machine"
    ]


@pytest.mark.slow
def test_what_is_there_is_said(tmp_path):
    (there, *_) = [p for p in points(fruit(tmp_path / "fruit/unpacked").parent) if p.config.nodes == 2]
    assert input_check.check([there], hosts_apart=False) == [
        f"fruit in {tmp_path}/fruit: 12 training and 6 validation samples"
    ]


@pytest.fixture
def program(tmp_path, monkeypatch):
    """A function that replaces Python by a program that writes lines to standard error and exits with this status."""

    def replace(lines: int, status: int) -> None:
        path = tmp_path / "python"
        path.write_text(f"#!/bin/sh\nfor i in $(seq {lines}); do echo line $i >&2; done\nexit {status}\n")
        path.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(path))

    return replace


def test_what_would_fail_is_said_in_full(tmp_path, program):
    program(lines=20, status=2)
    with pytest.raises(ConfigError, match=r"\Aline 1\nline 2\n(.*\n)+line 20\Z"):
        input_check.check(points(tmp_path), hosts_apart=False)


def test_a_program_that_breaks_shows_its_last_lines(tmp_path, program):
    program(lines=20, status=1)
    with pytest.raises(ConfigError, match=r"\Aline 9\nline 10\n(.*\n)+line 20\Z"):
        input_check.check(points(tmp_path), hosts_apart=False)
    program(lines=0, status=1)
    with pytest.raises(ConfigError, match="exit status 1"):
        input_check.check(points(tmp_path), hosts_apart=False)
