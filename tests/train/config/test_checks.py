import os

import pytest

from record import run_files as files
from tests.helpers.needs import needs
from train.config.checks import AllowedValues, ConfigError, check_results


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


def test_results_that_cannot_be_written_are_an_error_before_anything_starts(tmp_path):
    check_results(tmp_path / "new" / "results")
    assert (tmp_path / "new" / "results").is_dir()
    (tmp_path / "file").write_text("")
    for wrong, why in ((tmp_path / "file", "a file"), (tmp_path / "file" / "results", "Not a directory")):
        with pytest.raises(ConfigError, match=f"results={wrong}: {why}; give a folder in which records can be"):
            check_results(wrong)


@pytest.mark.parametrize(
    ("mode", "who"), [(0o755, None), (0o1777, None), (0o777, "everyone"), (0o2775, "the group 54321")]
)
@needs(root=True)
def test_results_that_others_may_exchange_are_refused_unless_they_are_trusted(tmp_path, mode, who):
    os.chown(tmp_path, 0, 54321)
    tmp_path.chmod(mode)
    if who is None:
        check_results(tmp_path)
        return
    with pytest.raises(ConfigError, match=rf"results={tmp_path}: {who} may write there.*system.trust_others=true"):
        check_results(tmp_path)
    check_results(tmp_path, trust_others=True)


def test_nobody_else_can_write_to_what_a_launch_makes(tmp_path):
    before = os.umask(0o002)  # of a project space
    try:
        check_results(tmp_path / "results")
        folder, _ = files.new_run(tmp_path / "results" / "point", 0)
        (folder / "run.json").write_text("{}")
    finally:
        os.umask(before)
    paths = [*tmp_path.rglob("*")]
    assert folder in paths
    assert [path for path in paths if path.stat().st_mode & 0o022] == []
