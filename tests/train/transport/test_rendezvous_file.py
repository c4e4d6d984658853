import stat
import threading

import pytest

from train.config.checks import ConfigError
from train.transport import rendezvous_file


def test_what_is_written_comes_whole_to_one_that_waits_and_to_no_other_user(tmp_path):
    path = tmp_path / "rendezvous"
    writing = threading.Thread(target=rendezvous_file.write, args=(path, "127.0.0.1 4711"))
    writing.start()
    assert rendezvous_file.wait(path, "see its log") == "127.0.0.1 4711"
    writing.join()
    assert list(tmp_path.iterdir()) == [path]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_that_never_comes_is_an_error_with_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(rendezvous_file, "IMPORT_WITHIN_S", 0.1)
    with pytest.raises(ConfigError, match=r"rendezvous: rank 0 did not write this within 0\.1 s: see its log"):
        rendezvous_file.wait(tmp_path / "rendezvous", "see its log")
