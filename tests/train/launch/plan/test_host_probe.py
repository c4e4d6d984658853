import json
import sys

from train.launch.plan import host_probe
from train.launch.plan.hosts import Host
from train.rank import placement


def test_a_host_answers_all_that_is_asked(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["host_probe", str(tmp_path)])
    host_probe.main()
    answer = Host(name="here", **json.loads(capsys.readouterr().out))
    assert answer.cores == len(placement.usable_cores())
    assert answer.free_bytes > 0
    assert (answer.sees_results, answer.has_image, answer.has_singularity) == (True, True, True)


def test_a_missing_folder_image_and_singularity_are_seen(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["host_probe", str(tmp_path / "none"), str(tmp_path / "kit.sif")])
    monkeypatch.setenv("PATH", str(tmp_path))
    host_probe.main()
    answer = json.loads(capsys.readouterr().out)
    assert [answer[key] for key in ("sees_results", "has_image", "has_singularity")] == [False, False, False]
