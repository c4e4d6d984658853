from types import SimpleNamespace

import pytest

from train.config.checks import ConfigError
from train.input import files


def config(folder) -> SimpleNamespace:
    return SimpleNamespace(dataset=SimpleNamespace(data_dir=str(folder)))


def has_mark(folder) -> bool:
    return (folder / "mark").exists()


@pytest.mark.parametrize("inside", [".", "dataset", "dataset/dataset"])
def test_found_up_to_two_levels_down(tmp_path, inside):
    (tmp_path / inside).mkdir(parents=True, exist_ok=True)
    (tmp_path / inside / "mark").touch()
    assert files.root(config(tmp_path), has_mark, "a mark") == (tmp_path / inside).absolute()


def test_the_nearest_level_counts_and_all_of_it_in_order(tmp_path):
    for inside in ("b", "a", "a/deeper"):
        (tmp_path / inside).mkdir()
        (tmp_path / inside / "mark").touch()
    assert files.roots(config(tmp_path), has_mark, "a mark") == [tmp_path / "a", tmp_path / "b"]


def test_three_levels_down_is_too_far_and_says_what_is_there(tmp_path):
    (tmp_path / "a/b/c").mkdir(parents=True)
    (tmp_path / "a/b/c/mark").touch()
    (tmp_path / "notes.txt").touch()
    with pytest.raises(ConfigError, match=r"found a/, notes.txt; expected a mark, there or at most 2 levels below$"):
        files.root(config(tmp_path), has_mark, "a mark")


def test_many_entries_are_not_all_listed(tmp_path):
    for number in range(11):
        (tmp_path / f"{number:02}").touch()
    with pytest.raises(ConfigError, match=r"found 00, 01, 02, 03, 04, 05, 06, 07 and 3 more; expected"):
        files.root(config(tmp_path), has_mark, "a mark")


def test_damages_are_distinguished_in_order(tmp_path):
    jpeg, png = b"\xff\xd8\xff\xe0" + bytes(9000) + b"\xff\xd9", b"\x89PNG\r\n\x1a\n" + bytes(50) + b"IEND\xaeB`\x82"
    contents = {
        "whole.jpg": jpeg,
        "named_wrongly.png": jpeg,
        "padded.jpg": jpeg + bytes(100),
        "cut.jpg": jpeg[:-1],
        "whole.png": png,
        "cut.png": png[:-8],
        "empty.jpg": b"",
        "page.jpg": b"<html>",
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "folder.jpg").mkdir()
    names = [*contents, "folder.jpg", "missing.jpg"]
    assert dict(zip(names, files.damages([f"{tmp_path}/{name}" for name in names]), strict=True)) == {
        "whole.jpg": None,
        "named_wrongly.png": None,
        "padded.jpg": None,
        "cut.jpg": "cut short",
        "whole.png": None,
        "cut.png": "cut short",
        "empty.jpg": "empty",
        "page.jpg": "neither JPEG nor PNG",
        "folder.jpg": "Is a directory",
        "missing.jpg": "No such file or directory",
    }


def test_no_file_at_all():
    assert files.damages([]) == []
