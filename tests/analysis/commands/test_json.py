"""What each command prints with --format json is what analysis/output.schema.json says, and docs/json.md explains."""

import json
from pathlib import Path

import jsonschema
import pytest

import analysis
from analysis.__main__ import main
from analysis.table import loading
from tests.helpers.own_records import Results, curve_in_rounds, fill
from tests.helpers.strategy_records import strategies
from tests.helpers.timelines import launch_with_timeline

SCHEMA = json.loads((Path(analysis.__file__).parent / "output.schema.json").read_text())
REPORT = str(loading.PUBLISHED / "000_hacksa.csv")
CURVE = "ranks,images_per_s,batch_per_rank,ranks_per_node\n1,100,32,1\n2,195,32,1\n4,380,32,1\n8,745,32,1\n"


def validator(name):
    """What checks a document of one command."""
    return jsonschema.Draft202012Validator({**SCHEMA, "$ref": f"#/$defs/{name}"})


@pytest.fixture
def printed(capsys, tmp_path, monkeypatch):
    """Runs a command; its document, which the schema allows."""
    monkeypatch.chdir(tmp_path)

    def run(command, *arguments, status=0):
        assert main([command, *map(str, arguments), "--format", "json"]) == status
        found = json.loads(capsys.readouterr().out, parse_constant=lambda word: pytest.fail(word))
        problems = [f"{error.json_path}: {error.message}" for error in validator(command).iter_errors(found)]
        assert not problems
        return found

    return run


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """Records of every kind."""
    return fill(Results(tmp_path_factory.mktemp("own") / "results")).folder


def test_the_schema_is_one_and_leaves_no_name_open():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)

    def objects(node):
        if isinstance(node, dict):
            if "properties" in node:
                yield node
            for value in node.values():
                yield from objects(value)
        elif isinstance(node, list):
            for value in node:
                yield from objects(value)

    for found in objects(SCHEMA):
        assert found["additionalProperties"] is False
        assert all("description" in of or "enum" in of for of in found["properties"].values())


def test_a_name_that_changes_is_refused(printed, tmp_path):
    path = tmp_path / "curve.csv"
    path.write_text(CURVE)
    (target,) = printed("predict", "--file", path, "--to", 32)
    assert not validator("predict").is_valid([{**target, "speed": 1}])
    assert not validator("predict").is_valid([{name: value for name, value in target.items() if name != "why"}])


def test_predict(printed, tmp_path):
    path = tmp_path / "curve.csv"
    path.write_text(CURVE)
    job = ("--images", 1000, "--price", 3)
    found = printed("predict", "--file", path, "--to", "8,32,512", "--up-to", 4, *job)
    assert [{"measured", "cost"} <= set(target) for target in found] == [True, False, False]
    assert [target["supported"] for target in found] == [True, True, False]


def test_explain(printed, tmp_path):
    assert len(printed("explain", REPORT)["curves"]) == 3
    path = tmp_path / "t.csv"
    path.write_text(
        "model,gpus,steps,batch_per_gpu,train_s\na,1,400,64,260\na,2,200,64,133\na,4,100,64,70\nb,1,4,8,3\n"
    )
    found = printed("explain", path)
    assert list(found["not_split"]) == ["b"]
    path.write_text(
        "gpus,steps,batch_per_gpu,train_s,images_per_s_per_gpu\n"
        "1,400,64,260,100\n2,200,64,133,1000\n4,100,64,30,100\n8,50,64,37,100\n16,25,64,21,100\n"
    )
    assert {one["kind"] for one in printed("explain", path)["curves"][0]["findings"]} == {"impossible", "speed_off"}


def test_audit_of_a_study(printed, tmp_path):
    path = tmp_path / "study.csv"
    path.write_text(
        "gpus,steps_per_worker,batch_per_gpu,train_s,images_per_s_per_gpu\n1,100,64,70,100\n2,50,64,40,180\n4,25,64,,95\n"
    )
    found = printed("audit", "--file", path)
    assert found["findings"]
    assert found["notes"]
    assert found["claims"] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "experiment", ["weak_scaling", "fixed_work", "overhead", "caltech256", "allreduce_bench", "network_sweep"]
)
def test_summary(printed, records, experiment):
    assert printed("summary", experiment, "--results", records)


def test_diagnose(printed, tmp_path):
    curve_in_rounds(tmp_path / "results")
    found = printed("diagnose", "weak_scaling", "--results", tmp_path / "results")
    assert found["curves"][0]["largest_loss"] == "exchange"
    assert found["jobs"]
    assert not validator("diagnose").is_valid({**found, "curves": [{**found["curves"][0], "largest_loss": "rest"}]})


def test_diagnose_of_arms(printed, tmp_path):
    strategies(tmp_path / "results")
    found = printed("diagnose", "strategies", "--results", tmp_path / "results")
    assert [curve["series"] for curve in found["curves"]] == ["horovod", "mwms"]
    [compared] = found["comparisons"]
    assert (compared["first"], compared["nodes"]) == ("horovod", 2)
    [mwms] = compared["others"]
    assert mwms["arm"] == "mwms"
    parts_s = [part["value"] for part in mwms["parts_longer_s"].values()]
    assert mwms["longer_s"]["value"] == pytest.approx(sum(parts_s))
    assert (mwms["differs"], mwms["reasons"]) == (True, ["exchange"])


def test_timeline(printed, tmp_path):
    launch_with_timeline(tmp_path / "results")
    (found,) = printed("timeline", "--results", tmp_path / "results")
    assert (tmp_path / found["trace"]).exists()


@pytest.mark.slow
def test_audit_and_claims(printed, records):
    found = printed("audit", records)
    assert {finding["report"] for finding in found["findings"]} == {"000", "001", "003", "004", "local"}
    assert [claim["id"] for claim in found["claims"]] == [claim["id"] for claim in printed("claims")]


@pytest.mark.slow
def test_compare_in_both_ways(printed, records):
    assert printed("compare", "--results", records)["comparisons"]
    assert printed("compare", f"A={records}", f"B={records}")["ratios"]


@pytest.mark.slow
def test_explain_of_records(printed, records):
    (curve, *_) = printed("explain", "--experiment", "fixed_work", "--results", records)["curves"]
    assert curve["phases"]


@pytest.mark.slow
def test_predict_of_the_reports(printed):
    assert printed("predict")
