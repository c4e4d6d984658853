"""Ranks that train on image files, some of them damaged. Damage that ends a run: tests/train/datasets."""

import ctypes
import itertools
import os
import struct
import sys
from pathlib import Path

import pytest
from PIL import Image

from tests.helpers.kit import QUICK, records, succeed

pytestmark = pytest.mark.end_to_end

CLASSES = ("freshapples", "freshbanana", "freshoranges", "rottenapples", "rottenbanana", "rottenoranges")


@pytest.fixture
def fruit(tmp_path) -> Path:
    """29 training images and two test images a class. One is empty, and only decoding finds the damage of another."""
    root = tmp_path / "fruit"
    for folder, count in (("train", 4), ("test", 2)):
        for label, name in enumerate(CLASSES):
            (root / folder / name).mkdir(parents=True)
            for number in range(count + (5 if (folder, label) == ("train", 0) else 0)):
                Image.new("RGB", (40, 30), (25 * number, 40 * label, 9)).save(root / folder / name / f"{number}.png")
    (root / "test/freshapples/0.png").write_bytes(b"")
    path = root / "test/rottenbanana/1.png"
    content = bytearray(path.read_bytes())
    position = content.index(b"IDAT") + 6
    content[position : position + 4] = bytes(4)
    path.write_bytes(bytes(content))
    return root


class Opened:
    """The files that any process opens in these folders from now on, in order, as inotify(7) reports them.

    The kernel merges consecutive openings of one file.
    """

    IN_OPEN = 0x20

    def __init__(self, folders: list[Path]) -> None:
        libc = ctypes.CDLL(None)
        self._queue = libc.inotify_init1(os.O_NONBLOCK)
        self._folders = {libc.inotify_add_watch(self._queue, bytes(path), self.IN_OPEN): path for path in folders}

    def files(self) -> list[Path]:
        """Return all files so far; call it once."""
        paths, content = [], b""
        while part := self._read():
            content += part
        os.close(self._queue)
        while content:
            watch, _, _, length = struct.unpack_from("iIII", content)
            if name := content[16 : 16 + length].rstrip(b"\0").decode():  # none: the folder itself
                paths.append(self._folders[watch] / name)
            content = content[16 + length :]
        return paths

    def _read(self) -> bytes:
        try:
            return os.read(self._queue, 1 << 16)
        except BlockingIOError:
            return b""


def test_an_epoch_has_no_sample_twice_and_damage_is_in_the_record(fruit, tmp_path):
    ranks, batch, steps, dropped = 2, 3, 4, 5
    opened = Opened(sorted(fruit.glob("*/*")))
    data = ("dataset=fruit", f"dataset.data_dir={fruit}", "measure.epochs=2", f"batch_per_rank={batch}")
    train = (sys.executable, "-m", "train", *QUICK, *data, f"nodes={ranks}", f"results={tmp_path / 'results'}")
    succeed("horovodrun", "-np", f"{ranks}", "--gloo", *train)
    (record,) = records(tmp_path / "results")
    assert (record.status, len(record.ranks)) == ("complete", ranks)

    # Before the first epoch each rank looks at all files, the training images first.
    parts = [list(files) for _, files in itertools.groupby(opened.files(), lambda path: path.parent.parent)]
    first, _, second, _ = parts[-4:]
    for epoch in (first, second):
        assert epoch[0].is_relative_to(fruit / "train")
        assert len(set(epoch)) == len(epoch) == steps * batch * ranks == 29 - dropped
    assert set(first) != set(second)  # each leaves other images out
    assert [epoch.steps for epoch in record.epochs] == [steps, steps]

    # One of twelve test images was left out before, and one has weight 0: accuracies are tenths.
    tenths = record.epochs[-1].validation_accuracy * 10
    assert tenths == pytest.approx(round(tenths))
    left_out, before, in_training = record.notes
    assert left_out == f"{dropped} samples an epoch left out: less than one global batch"
    assert before == f"{fruit}/test: 1 of 12 validation images damaged and left out: freshapples/0.png (empty)"
    assert in_training.startswith("rottenbanana/1.png cannot be decoded (Invalid PNG data")
    assert in_training.endswith("in validation another sample of its batch replaced it, with weight 0")
