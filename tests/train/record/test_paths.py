from pathlib import Path

from tests.helpers.bare_record import bare_record
from train.record import paths
from train.record.record import RECORD_NAME, dumps


def leave(folder: Path, **changes) -> None:
    (folder / RECORD_NAME).write_bytes(dumps(bare_record(**changes)))


def test_generations_add_and_replace_nothing(tmp_path):
    point = paths.point_folder(tmp_path, "weak_scaling", "tiny-nodes1", "0123456789abcdef")
    assert point == tmp_path / "weak_scaling/tiny-nodes1/01234567"
    first, generation = paths.new_run(point, 0)
    assert (first.name, generation) == ("r0", 1)
    second, generation = paths.new_run(point, 0)
    assert (second.name, generation) == ("r0.2", 2)
    assert paths.new_run(point, 1)[0].name == "r1"
    assert paths.generations(point, 0) == [1, 2]


def test_only_a_complete_readable_record_counts_as_measured(tmp_path):
    point = tmp_path / "point"
    assert paths.completed(point, 0) is None
    leave(paths.new_run(point, 0)[0], job_s=7.0)
    leave(paths.new_run(point, 0)[0], status="failed")
    (paths.new_run(point, 0)[0] / RECORD_NAME).write_text("{")
    result = paths.completed(point, 0)
    assert result is not None
    assert result.job_s == 7.0
    assert paths.completed(point, 1) is None
