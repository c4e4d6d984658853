import pytest

from train.record import files


def test_a_file_is_replaced_whole_and_nothing_else_is_left(tmp_path):
    path = tmp_path / "rendezvous"
    for content in (b"first", b"second"):
        files.write_whole(path, content)
        assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_cannot_be_written_leaves_the_one_before(tmp_path):
    path = tmp_path / "rendezvous"
    path.write_bytes(b"first")
    (tmp_path / ".rendezvous.writing").mkdir()
    with pytest.raises(OSError, match="writing"):
        files.write_whole(path, b"second")
    assert path.read_bytes() == b"first"
