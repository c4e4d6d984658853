import os

import pytest

from record import ledger


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("other"), os.mkdir])
def test_what_is_no_file_in_place_of_a_ledger_is_named_and_not_written(tmp_path, make):
    """A pipe would wait for a reader for ever."""
    (tmp_path / "other").write_text("content")
    make(tmp_path / ledger.NAME)
    with pytest.raises(OSError, match=r"regular|symbolic|directory") as error:
        ledger.append(tmp_path, ledger.Line("skip", 0))
    assert error.value.filename == str(tmp_path / ledger.NAME)
    assert (tmp_path / "other").read_text() == "content"
