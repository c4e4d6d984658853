import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from analysis.__main__ import main
from analysis.compare import sets
from tests.helpers.own_records import make_record, save
from tests.helpers.own_studies import month, month_in_rounds, month_of_allreduce
from train.record.record import Failure

pytestmark = pytest.mark.slow  # reads launches of several months


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A results folder with the first month, in the current folder."""
    monkeypatch.chdir(tmp_path)
    month(tmp_path / "results", 0)
    return tmp_path / "results"


def verdicts(result):
    return {(point["point"], point["quantity"]): point["verdict"] for point in result["machines"][0]["points"]}


def test_months_that_are_alike_and_one_that_is_slower(here, json_output):
    month(here, 1)
    assert set(verdicts(json_output("history", "weak-scaling")).values()) == {"as before"}
    month(here, 2, slower=1.25, commit="b" * 40)
    result = json_output("history", "weak-scaling")
    slower = {(at, name): "slower" for at in ("1 node", "2 nodes") for name in ("images_per_s", "wall_s", "job_s")}
    assert verdicts(result) == slower | {("2 nodes", "speedup"): "as before"}
    assert [one["commit"] for one in result["machines"][0]["sessions"]] == ["a" * 7, "a" * 7, "b" * 7]


def test_a_start_that_takes_longer_is_found_in_the_job_time_alone(here, json_output):
    month(here, 1, imports=1.6)  # 3 s of 16 take 4.8 s
    result = verdicts(json_output("history", "weak_scaling", "--strict", status=1))
    assert {point for point, verdict in result.items() if verdict == "slower"} == {
        ("1 node", "job_s"), ("2 nodes", "job_s"),
    }  # fmt: skip
    assert {verdict for (_, name), verdict in result.items() if name != "job_s"} == {"as before"}


@pytest.mark.parametrize(
    ("slower", "expected"),
    [
        ({}, ["as before", "as before"]),
        ({2**20: 1.3}, ["as before", "slower"]),  # the link carries less
        ({1024: 1.3}, ["slower", "as before"]),  # it answers later
    ],
)
def test_allreduce_alone_in_a_history_and_beside_a_reference(
    tmp_path, monkeypatch, json_output, capsys, slower, expected
):
    monkeypatch.chdir(tmp_path)
    month_of_allreduce(tmp_path / "results", 0)
    assert main(["reference", "link", "--experiment", "allreduce_bench"]) == 0
    assert "bus bandwidth [GB/s]" in capsys.readouterr().out
    month_of_allreduce(tmp_path / "results", 1, slower)
    result = json_output("history", "allreduce_bench")
    assert [*verdicts(result).values()] == expected
    assert [point["unit"] for point in result["machines"][0]["points"]] == ["s", "bytes/s"]
    result = json_output("check-reference", "link", status=int("slower" in expected))
    assert [point["verdict"] for point in result["points"]] == expected
    assert main(["history", "allreduce_bench", "--draw"]) == 0
    assert "allreduce  2 nodes, gloo, cycle 20 ms, 1 MiB" in capsys.readouterr().out


def test_strict_fails_only_where_something_is_slower(here, capsys):
    month(here, 1, slower=0.8)
    assert main(["history", "weak_scaling", "--strict"]) == 0
    assert "faster" in capsys.readouterr().out
    month(here, 2, slower=1.25)
    assert main(["history", "weak_scaling"]) == 0
    assert main(["history", "weak_scaling", "--strict", "--junit", "ci.xml"]) == 1
    suite = ElementTree.parse("ci.xml").getroot()
    assert 0 < int(suite.get("failures", "0")) < int(suite.get("tests", "0"))


def test_two_sessions_have_the_ratio_that_compare_has(tmp_path, json_output):
    month(tmp_path / "a", 0)
    month(tmp_path / "b", 1, slower=1.1)
    both = sets.compare(tmp_path / "a", tmp_path / "b")
    by_compare = [(one.ratio.value, *one.ratio.interval) for one in both.ratios if one.by == "throughput"]
    result = json_output("history", "weak_scaling", "--results", str(tmp_path))["machines"][0]["points"]
    by_history = [tuple(point["ratio"][end] for end in ("value", "low", "high"))
                  for point in result if point["quantity"] == "images_per_s"]  # fmt: skip
    assert [pytest.approx(one) for one in by_compare] == by_history


def test_one_launch_a_month_is_judged_by_the_months_before(tmp_path, json_output):
    for number, slower in enumerate((1.0, 1.002, 0.998, 1.0, 1.001)):
        month_in_rounds(tmp_path, number, slower)
    assert (
        verdicts(json_output("history", "weak_scaling", "--results", str(tmp_path)))["1 node", "images_per_s"]
        == "as before"
    )
    month_in_rounds(tmp_path, 5, slower=1.3)
    result = verdicts(json_output("history", "weak_scaling", "--results", str(tmp_path), "--strict", status=1))
    assert result["2 nodes", "images_per_s"] == "slower"


def test_the_first_session_has_nothing_to_compare_with(here, capsys):
    assert main(["history", "weak_scaling", "--strict"]) == 0
    assert "one session: nothing to compare with yet; FORCE=1" in capsys.readouterr().out


def test_without_records_it_says_what_there_is(here, capsys):
    assert main(["history", "strong_scaling"]) == 2
    printed = capsys.readouterr().err
    assert "no complete run of experiment 'strong_scaling' (there are: weak_scaling)" in printed
    assert main(["history", "weak_scaling", "--since", "2027-01-01"]) == 2
    assert "since 2027-01-01" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [("--within", "5"), ("--within", "x"), ("--since", "yesterday")])
def test_options_that_are_none(here, arguments, capsys):
    with pytest.raises(SystemExit):
        main(["history", "weak_scaling", *arguments])
    assert "given, must be a" in capsys.readouterr().err


def test_a_reference_is_written_kept_and_checked(here, json_output, capsys):
    assert main(["reference", "first"]) == 0
    printed = capsys.readouterr().out
    assert "references/first.json: 7 values of 6 launches, 2026-01-03 to 2026-01-03" in printed
    assert main(["reference", "first"]) == 2
    assert "FORCE=1 replaces it" in capsys.readouterr().err
    # Its own launches say nothing about it.
    result = json_output("check-reference", "first")
    assert {point["note"] for point in result["points"]} == {
        "not measured since, in this configuration on this machine"
    }
    month(here, 1)
    assert {point["verdict"] for point in json_output("check-reference", "first")["points"]} == {"as before"}
    month(here, 2, slower=1.25, commit="b" * 40)
    assert main(["check-reference", "first", "--junit", "ci.xml"]) == 1
    assert ElementTree.parse("ci.xml").getroot().find(".//failure") is not None
    assert "commit: aaaaaaa -> bbbbbbb" in capsys.readouterr().out
    assert main(["reference", "first", "--force", "--since", "2026-02-01"]) == 0
    assert "7 values of 12 launches, 2026-02-03 to 2026-03-03" in capsys.readouterr().out


def test_the_figure_is_drawn(here, capsys):
    month(here, 1)
    month(here, 2, slower=1.25, commit="b" * 40)
    assert main(["history", "weak_scaling", "--draw"]) == 0
    assert Path("figures/history-weak-scaling.svg").is_file()


def test_failed_runs_of_other_experiments_are_not_named(here, capsys):
    for name in ("weak_scaling", "overhead"):
        save(make_record(name, repeat=9, failure=Failure(f"killed in {name}")), here)
    assert main(["history", "weak-scaling"]) == 0
    printed = capsys.readouterr().err
    assert "killed in weak_scaling" in printed
    assert "overhead" not in printed
