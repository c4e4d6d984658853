from types import SimpleNamespace

import pytest

from train.config.checks import ConfigError
from train.input import image_files


def config(folder) -> SimpleNamespace:
    return SimpleNamespace(dataset=SimpleNamespace(data_dir=str(folder)))


def has_mark(folder) -> bool:
    return (folder / "mark").exists()


@pytest.mark.parametrize("inside", [["."], ["dataset/dataset"], ["a", "b"]])
def test_the_nearest_level_up_to_two_down_counts_and_all_of_it_in_order(tmp_path, inside):
    for name in (*inside, f"{inside[0]}/deeper"):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / name / "mark").touch()
    assert image_files.roots(config(tmp_path), has_mark, "a mark") == [tmp_path / name for name in inside]


def test_three_levels_down_is_too_far_and_the_error_lists_some_entries(tmp_path):
    (tmp_path / "a/b/c").mkdir(parents=True)
    (tmp_path / "a/b/c/mark").touch()
    for number in range(10):
        (tmp_path / f"n{number}").touch()
    with pytest.raises(
        ConfigError,
        match=r"found a/, n0, n1, n2, n3, n4, n5, n6 and 3 more; expected a mark, there or at most 2 levels",
    ):
        image_files.root(config(tmp_path), has_mark, "a mark")


def test_damages_are_distinguished_in_order(tmp_path):
    jpeg, png = b"\xff\xd8\xff\xe0" + bytes(9000) + b"\xff\xd9", b"\x89PNG\r\n\x1a\n" + bytes(50) + b"IEND\xaeB`\x82"
    contents = {
        "whole.jpg": (jpeg, None),
        "named_wrongly.png": (jpeg, None),
        "padded.jpg": (jpeg + bytes(100), None),
        "cut.jpg": (jpeg[:-1], "cut short"),
        "whole.png": (png, None),
        "cut.png": (png[:-8], "cut short"),
        "empty.jpg": (b"", "empty"),
        "page.jpg": (b"<html>", "neither JPEG nor PNG"),
    }
    for name, (content, _) in contents.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "folder.jpg").mkdir()
    paths = [f"{tmp_path}/{name}" for name in (*contents, "folder.jpg", "missing.jpg")]
    expected = [*(damage for _, damage in contents.values()), "Is a directory", "No such file or directory"]
    assert image_files.damages(paths) == expected
    assert image_files.damages([]) == []
