from pathlib import Path

from test_record import make_record

from train import folders
from train.record import RECORD_NAME, dumps


def leave(folder: Path, **changes) -> None:
    (folder / RECORD_NAME).write_bytes(dumps(make_record(**changes)))


def test_generations_add_and_replace_nothing(tmp_path: Path):
    point = folders.point_folder(tmp_path, "weak_scaling", "tiny-nodes1", "0123456789abcdef")
    assert point == tmp_path / "weak_scaling/tiny-nodes1/01234567"
    first, generation = folders.new_run(point, 0)
    assert (first.name, generation) == ("r0", 1)
    second, generation = folders.new_run(point, 0)
    assert (second.name, generation) == ("r0.2", 2)
    assert folders.new_run(point, 1)[0].name == "r1"
    assert folders.generations(point, 0) == [1, 2]


def test_only_a_complete_readable_record_counts_as_measured(tmp_path: Path):
    point = tmp_path / "point"
    assert folders.completed(point, 0) is None
    leave(folders.new_run(point, 0)[0], job_s=7.0)
    leave(folders.new_run(point, 0)[0], status="failed")
    (folders.new_run(point, 0)[0] / RECORD_NAME).write_text("{")
    found = folders.completed(point, 0)
    assert found is not None
    assert found.job_s == 7.0
    assert folders.completed(point, 1) is None
