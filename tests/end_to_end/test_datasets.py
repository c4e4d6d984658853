"""Real ranks that train on real files, some of them damaged."""

import sys
from pathlib import Path

import pytest
from kit import QUICK, records, run
from PIL import Image

pytestmark = pytest.mark.end_to_end

CLASSES = ("freshapples", "freshbanana", "freshoranges", "rottenapples", "rottenbanana", "rottenoranges")


def train(ranks: int, folder: Path, results: Path, *more: str) -> tuple[int, str]:
    start = ("horovodrun", "-np", str(ranks), "--gloo", sys.executable, "-m", "train", *QUICK, f"nodes={ranks}")
    data = ("dataset=fruit", f"dataset.data_dir={folder}", "measure.epochs=2", "batch_per_rank=2")
    return run(*start, *data, f"results={results}", *more)


@pytest.fixture
def fruit(tmp_path) -> Path:
    """Four training and two test images a class. One is empty, and one only decoding finds damaged."""
    root = tmp_path / "fruit"
    for folder, count in (("train", 4), ("test", 2)):
        for label, name in enumerate(CLASSES):
            (root / folder / name).mkdir(parents=True)
            for number in range(count):
                Image.new("RGB", (40, 30), (60 * number, 40 * label, 9)).save(root / folder / name / f"{number}.png")
    (root / "test/freshapples/0.png").write_bytes(b"")
    path = root / "test/rottenbanana/1.png"
    content = bytearray(path.read_bytes())
    place = content.index(b"IDAT") + 6
    content[place : place + 4] = bytes(4)
    path.write_bytes(bytes(content))
    return root


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_damage_stands_in_the_record_and_does_not_end_the_run(fruit, tmp_path, ranks):
    status, output = train(ranks, fruit, tmp_path / "results")
    assert status == 0, output
    (record,) = records(tmp_path / "results")
    assert record.epochs[-1].steps == 24 // (2 * ranks)
    # Of twelve test images one was left out before, and one counts 0: accuracies are tenths.
    tenths = record.epochs[-1].validation_accuracy * 10
    assert tenths == pytest.approx(round(tenths))
    before, when_it_came = record.notes
    assert before == f"{fruit}/test: 1 of 12 validation images damaged and left out: freshapples/0.png (empty)"
    assert when_it_came.startswith("rottenbanana/1.png cannot be decoded (Invalid PNG data")
    assert when_it_came.endswith("in validation another of its batch stood in for it, with weight 0")


def test_damage_ends_the_run_where_that_is_asked_for(fruit, tmp_path):
    status, output = train(2, fruit, tmp_path / "results", "dataset.on_damaged=error")
    assert status != 0
    assert "1 of 12 validation images damaged and left out: freshapples/0.png (empty). Mend it, or" in output
    assert [record.status for record in records(tmp_path / "results")] == ["failed"]


def test_ranks_that_find_different_files_stop(fruit, tmp_path):
    for rank in range(2):
        (tmp_path / f"host{rank}").symlink_to(fruit, target_is_directory=True)
    (tmp_path / "host1").unlink()
    (tmp_path / "host1").mkdir()
    for folder in ("train", "test"):
        (tmp_path / "host1" / folder).symlink_to(fruit / ("test" if folder == "train" else "train"))
    status, output = train(2, Path(f"'{tmp_path}/host${{oc.env:HOROVOD_RANK}}'"), tmp_path / "results")
    assert status != 0
    assert "the ranks find different samples in it" in output
