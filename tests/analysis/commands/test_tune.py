import pytest

from analysis.__main__ import main
from tests.helpers.own_records import make_record, save


@pytest.fixture
def tuned(results, tmp_path):
    """Runs the command over a contest in which one arm is faster; returns its status."""
    drift = [0.5, 0.6, 0.55, 0.7, 0.5, 0.52]
    for arm, factor, cycle in (("as-configured", 1.0, 20.0), ("cycle-5ms", 0.8, 5.0)):
        for repeat, step_s in enumerate(drift):
            run = make_record(
                experiment="tune", nodes=2, step_s=factor * step_s, repeat=repeat, arm=arm, swept={},
                role="base" if factor == 1 else "point", arm_keys=["distribution.cycle_time_ms"],
                **{"distribution.cycle_time_ms": cycle},
            )  # fmt: skip
            save(run, results.folder)

    def command(*more):
        return main(["tune", "--results", str(results.folder), "--conf", str(tmp_path), *more])

    return command


def test_the_winner_is_written_only_on_request_and_never_over_a_file(tuned, tmp_path, capsys):
    assert tuned() == 0
    assert "cycle-5ms (distribution.cycle_time_ms=5.0) is 1.25 times as fast" in capsys.readouterr().out
    assert not (tmp_path / "system").exists()
    assert tuned("--write", "mine") == 0
    assert "Use it with SYSTEM=mine" in capsys.readouterr().out
    assert "cycle_time_ms: 5.0" in (tmp_path / "system/mine.yaml").read_text()
    assert tuned("--write", "mine") == 2
    assert "mine.yaml: it exists" in capsys.readouterr().err


def test_a_name_that_cannot_be_written_is_refused_before_anything_is_measured(tuned, tmp_path, capsys):
    assert tuned("--dry-run", "--write", "mine") == 0
    assert capsys.readouterr() == ("", "")
    for dry_run in ([], ["--dry-run"]):
        assert tuned(*dry_run, "--write", "../mine") == 2
        result = capsys.readouterr()
        assert (result.out, "a name of letters, digits and _ is needed (WRITE=)" in result.err) == ("", True)
    (tmp_path / "system").mkdir()
    (tmp_path / "system/mine.yaml").touch()
    assert tuned("--dry-run", "--write", "mine") == 2
    assert "mine.yaml: it exists, and is not replaced" in capsys.readouterr().err


def test_a_program_reads_the_ranking(tuned, json_output, results):
    [contest] = json_output("tune", "--results", results.folder)["contests"]
    assert [(arm["arm"], arm["verdict"]) for arm in contest["arms"]] == [
        ("cycle-5ms", "faster"),
        ("as-configured", "base"),
    ]


def test_without_a_contest_it_says_so(tuned, capsys):
    assert tuned("--models", "vgg16") == 1
    assert "no complete runs of the base and of another arm of tune" in capsys.readouterr().err
