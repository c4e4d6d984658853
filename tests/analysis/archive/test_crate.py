"""The metadata of an archive, which roc-validator checks where it is installed, without a network."""

import json
import os
import subprocess
import textwrap
from importlib.resources import files

import pytest

from analysis.archive import crate
from record import schema as record
from record.schema import Failure
from tests.helpers.run_records import make_record, update_derived

# It needs another version of rich than the kit, so a separate environment: `pip install rocrate roc-validator`.
VALIDATOR = os.environ.get("ROC_VALIDATOR_PYTHON", "")
VALIDATE = """
    import io, json, pathlib, sys, requests, urllib3
    from requests.adapters import HTTPAdapter
    context = pathlib.Path(sys.argv[2]).read_bytes()
    def send(self, request, **_):  # the only file that it would fetch
        is_context = request.url.endswith("ro/crate/1.1/context")
        body, status = (context, 200) if is_context else (b"", 404)
        headers = {"Content-Type": "application/ld+json"}
        raw = urllib3.HTTPResponse(body=io.BytesIO(body), status=status, headers=headers, preload_content=False)
        return self.build_response(request, raw)
    HTTPAdapter.send = send
    from rocrate_validator import models, services
    settings = services.ValidationSettings(rocrate_uri=sys.argv[1], profile_identifier="process-run-crate-0.5",
                                           requirement_severity=models.Severity.REQUIRED, no_cache=True)
    print(json.dumps([issue.message for issue in services.validate(settings).get_issues()]))
"""


@pytest.fixture
def archive(tmp_path):
    """Two records, one failed, a figure and the page."""
    runs = {}
    for repeat, failure in enumerate((None, Failure("killed"))):
        name = f"results/weak_scaling/resnet50_nodes=1/0a1b2c3d/r{repeat}/record.json"
        runs[name] = update_derived(make_record(repeat=repeat, failure=failure))
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_bytes(record.dumps(runs[name]))
    [first, _] = runs
    runs[first].attachments = {"horovod-timeline.json": "0" * 64, "operations-0.json.gz": "0" * 64}
    (tmp_path / first).with_name("horovod-timeline.json").write_text("[]")  # the other file was left out
    for name in ("report.html", "README.txt", "figures/000-vgg19.svg", "figures/000-vgg19.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    names = [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()]
    (tmp_path / crate.NAME).write_bytes(crate.metadata(names, runs))
    assert crate.metadata(names[::-1], runs) == (tmp_path / crate.NAME).read_bytes()
    return tmp_path


def test_each_launch_is_an_action_with_its_program_and_its_record(archive):
    graph = {entity["@id"]: entity for entity in json.loads((archive / crate.NAME).read_text())["@graph"]}
    launches = [entity for id, entity in graph.items() if entity["@type"] == "CreateAction" and id != "#analysis"]
    assert [entity["actionStatus"]["@id"].rpartition("/")[2] for entity in launches] == [
        "CompletedActionStatus", "FailedActionStatus",
    ]  # fmt: skip
    assert launches[1]["error"] == "killed"
    results = [[entity["@id"].rpartition("/")[2] for entity in launch["result"]] for launch in launches]
    assert results == [["record.json", "horovod-timeline.json"], ["record.json"]]
    assert launches[0]["startTime"] == "2026-11-20T12:00:00+00:00"
    assert {entity["instrument"]["@id"] for entity in launches} == {"#kit-" + "0" * 40}
    assert graph["#kit-" + "0" * 40]["softwareRequirements"] == [{"@id": "#tensorflow-2.18.1"}]
    assert {part["@id"] for part in graph["./"]["hasPart"]} <= set(graph)
    assert graph["./"]["conformsTo"] == {"@id": crate.PROFILE}


@pytest.mark.slow
@pytest.mark.skipif(not VALIDATOR, reason="ROC_VALIDATOR_PYTHON= is not set: a Python with rocrate and roc-validator")
def test_the_validator_accepts_it(archive, tmp_path):
    context = tmp_path.parent / "context.json"
    shipped = json.loads((files("rocrate") / "data" / "ro-crate.jsonld").read_text())
    context.write_text(json.dumps({"@context": shipped["@context"]}))
    command = [VALIDATOR, "-c", textwrap.dedent(VALIDATE), str(archive), str(context)]
    process = subprocess.run(command, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    assert json.loads(process.stdout.splitlines()[-1]) == []
