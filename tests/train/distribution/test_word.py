import threading

import pytest

from train.config.checks import ConfigError
from train.distribution import word


def test_a_word_comes_whole_to_one_that_waits_and_nothing_else_is_left(tmp_path):
    path = tmp_path / "word"
    leaving = threading.Thread(target=word.leave, args=(path, "127.0.0.1 4711"))
    leaving.start()
    assert word.wait(path, "see its log") == "127.0.0.1 4711"
    leaving.join()
    assert list(tmp_path.iterdir()) == [path]


def test_a_word_that_never_comes_is_an_error_with_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(word, "IMPORT_WITHIN_S", 0.1)
    with pytest.raises(ConfigError, match=f"{tmp_path}/word: rank 0 did not write this within 0.1 s: see its log"):
        word.wait(tmp_path / "word", "see its log")
