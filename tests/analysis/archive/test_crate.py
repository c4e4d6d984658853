import json

from analysis.archive import crate
from record.schema import Failure
from tests.helpers.run_records import make_record, update_derived


def test_each_launch_is_an_action_with_its_program_and_its_record():
    path = "results/weak_scaling/resnet50_nodes=1/0a1b2c3d/r{}/record.json"
    records = make_record(), make_record(repeat=1, failure=Failure("killed"))
    runs = {path.format(record.repeat): update_derived(record) for record in records}
    [first, _] = runs
    runs[first].attachments = {"horovod-timeline.json": "0" * 64, "operations-0.json.gz": "0" * 64}
    timeline = first.replace("record.json", "horovod-timeline.json")  # the other file was left out
    names = [*runs, timeline, "report.html", "README.txt", "figures/000-vgg19.svg", "figures/000-vgg19.csv"]
    text = crate.metadata(names, runs)
    assert crate.metadata(names[::-1], runs) == text
    graph = {entity["@id"]: entity for entity in json.loads(text)["@graph"]}
    launches = [entity for id, entity in graph.items() if entity["@type"] == "CreateAction" and id != "#analysis"]
    statuses = [entity["actionStatus"]["@id"].rpartition("/")[2] for entity in launches]
    assert statuses == ["CompletedActionStatus", "FailedActionStatus"]
    assert launches[1]["error"] == "killed"
    results = [[entity["@id"].rpartition("/")[2] for entity in launch["result"]] for launch in launches]
    assert results == [["record.json", "horovod-timeline.json"], ["record.json"]]
    assert launches[0]["startTime"] == "2026-11-20T12:00:00+00:00"
    assert {entity["instrument"]["@id"] for entity in launches} == {"#kit-" + "0" * 40}
    assert graph["#kit-" + "0" * 40]["softwareRequirements"] == [{"@id": "#tensorflow-2.18.1"}]
    assert {part["@id"] for part in graph["./"]["hasPart"]} <= set(graph)
    assert graph["./"]["conformsTo"] == {"@id": crate.PROFILE}
