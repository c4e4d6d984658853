import pytest

from train.config.checks import AllowedValues, reported


@pytest.mark.parametrize(
    ("keywords", "inside", "outside", "text"),
    [
        ({"minimum": 1}, (1, 7), (0, -1), "must be 1 or more"),
        ({"above": 0, "unit": "ms"}, (0.1,), (0,), "must be above 0 ms"),
        ({"above": 0, "maximum": 1}, (0.5, 1), (0, 1.1), "must be above 0 and at most 1"),
        ({"minimum": 0, "below": 1}, (0, 0.9), (1, -0.1), "must be 0 or more and below 1"),
        ({"minimum": 1, "null": "all"}, (None, 1), (0,), "must be 1 or more, or null for all"),
        ({"minimum": 0}, (0.0,), (float("inf"), float("nan")), "must be 0 or more"),
        ({"names": ("cpu", "gpu")}, ("cpu", "gpu"), ("tpu", ""), "allowed are cpu, gpu"),
    ],
)
def test_allowed_values_admit_what_their_text_says(keywords, inside, outside, text):
    allowed = AllowedValues(**keywords)
    assert all(allowed.admit(value) for value in inside)
    assert not any(allowed.admit(value) for value in outside)
    assert allowed.text() == text


def test_a_limit_on_threads_is_an_error_of_a_command_and_a_fault_is_not(capsys):
    def refused(text: str) -> int:
        raise RuntimeError(text)

    assert reported(lambda: refused("can't start new thread")) == 2
    assert "ulimit -u" in capsys.readouterr().err
    with pytest.raises(RuntimeError, match="another"):
        reported(lambda: refused("another"))
