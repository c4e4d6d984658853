from dataclasses import replace

import pytest

from analysis.audit import host_kinds
from analysis.audit.compared_launches import launch
from analysis.audit.findings import EXPERIMENT_RULES, RECORD_RULES
from tests.helpers.run_records import make_record

GIB = 2**30
HOST = make_record().environment.hosts[0]
HOST = replace(HOST, memory_bytes=int(251.4997 * GIB), cores=128, kernel="6.1.0-13-amd64")
HOST = replace(HOST, state=replace(HOST.state, frequency_max_mhz=3675.4))


def with_clock(mhz):
    return replace(HOST, state=replace(HOST.state, frequency_max_mhz=mhz))


def on_hosts(*hosts, **fields):
    record = make_record(**fields)
    record.environment.hosts = [*hosts]
    return record


@pytest.mark.parametrize(
    "other",
    [
        replace(HOST, memory_bytes=int(251.5003 * GIB)),
        replace(HOST, memory_bytes=int(250.5 * GIB)),  # another kernel reserves more
        with_clock(3675.6),
        with_clock(None),
        replace(HOST, cores=127),  # one of them is offline
    ],
)
def test_rounding_makes_no_other_machine(other):
    assert host_kinds.differences((HOST,), (other,)) == []


KERNEL, LESS_MEMORY = replace(HOST, kernel="6.1.0-15-amd64"), replace(HOST, memory_bytes=int(240 * GIB))


@pytest.mark.parametrize(
    ("other", "severity", "values"),
    [
        (KERNEL, "note", ("kernel 6.1.0-13-amd64", "kernel 6.1.0-15-amd64")),
        (replace(HOST, kernel="6.8.0-1"), "warning", ("kernel 6.1.0-13-amd64", "kernel 6.8.0-1")),
        (LESS_MEMORY, "note", ("251.5 GiB", "240.0 GiB")),
        (with_clock(2900.0), "warning", ("3675 MHz", "2900 MHz")),
        (replace(HOST, cores=64), "note", ("128 cores", "64 cores")),  # each rank is bound to as many
        (replace(HOST, cpu_model="Xeon"), "serious", (HOST.cpu_model, "Xeon")),
        (replace(HOST, gpus=["Tesla P100"]), "serious", ("no GPU", "Tesla P100")),
    ],
)
def test_a_fact_of_a_host_that_differs_is_named_with_both_values(other, severity, values):
    (within,) = RECORD_RULES["unequal_hosts"](on_hosts(HOST, other, nodes=2), "p")
    assert (within.severity, [value in within.meaning for value in values]) == (severity, [True, True])
    runs = [launch(on_hosts(host, repeat=number), f"p{number}") for number, host in enumerate((HOST, HOST, other))]
    (between,) = EXPERIMENT_RULES["unequal_machines"](runs)
    assert (between.severity, between.place) == (severity, "p2")
    assert between.stated == f"resnet50_nodes=1 r2 on {values[1]}"
    assert between.follows == f"{values[0]}, as 2 other runs"


@pytest.mark.parametrize("other", [KERNEL, LESS_MEMORY])
def test_a_note_between_the_hosts_of_a_job_makes_no_other_machine_and_is_named_once(other):
    """A base on one of two hosts, and jobs on both, of two models."""
    runs = [
        launch(on_hosts(*[HOST, other][:nodes], model=model, nodes=nodes, swept={"model": model, "nodes": nodes}), "p")
        for model in ("resnet50", "vgg16")
        for nodes in (1, 2)
    ]
    findings = EXPERIMENT_RULES["unequal_machines"](runs)
    assert [finding.severity for finding in findings] in ([], ["note"])


def test_one_machine_that_differs_in_two_curves_is_one_finding():
    xeon = replace(HOST, cpu_model="Xeon")
    runs = [
        launch(on_hosts(host, model=model, repeat=repeat, swept={"model": model, "nodes": 1}), "p")
        for model in ("resnet50", "vgg16")
        for repeat, host in enumerate((HOST, HOST, xeon))
    ]
    (finding,) = EXPERIMENT_RULES["unequal_machines"](runs)
    assert (finding.severity, finding.place) == ("serious", "p, and 1 more runs")


def software(**changes):
    """Return the findings on two launches, the second with these versions, or this image."""
    runs = [make_record(), make_record(nodes=2)]
    for name, usual in (("python", "3.11.7"), ("numpy", "2.0.2")):
        runs[0].environment.versions[name] = usual
        runs[1].environment.versions[name] = changes.pop(name, usual)
    for run in runs:
        run.environment.image = "kit:cpu"
    runs[1].environment = replace(runs[1].environment, **changes)
    findings = EXPERIMENT_RULES["unequal_software"]([launch(run, "p") for run in runs])
    return [(finding.severity, finding.stated) for finding in findings]


def test_a_patch_level_of_python_or_numpy_and_an_image_that_half_of_the_records_name_are_notes():
    assert software() == []
    assert software(python="3.11.9") == [("note", "python: 3.11.7, 3.11.9")]
    assert software(numpy="2.0.3") == [("note", "numpy: 2.0.2, 2.0.3")]
    assert software(numpy="2.1.0") == [("serious", "numpy: 2.0.2, 2.1.0")]
    assert software(python="3.12.1") == [("serious", "python: 3.11.7, 3.12.1")]
    assert software(image=None) == [("note", "image: kit:cpu, none")]
    assert software(image_digest="sha256:12") == [("note", "image: kit:cpu, sha256:12")]
    assert software(image="kit:mvapich2") == [("serious", "image: kit:cpu, kit:mvapich2")]
