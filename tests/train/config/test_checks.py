import pytest

from train.config.checks import reported


def test_a_limit_on_threads_is_an_error_of_a_command_and_a_fault_is_not(capsys):
    def refused(text: str) -> int:
        raise RuntimeError(text)

    assert reported(lambda: refused("can't start new thread")) == 2
    assert "ulimit -u" in capsys.readouterr().err
    with pytest.raises(RuntimeError, match="another"):
        reported(lambda: refused("another"))
