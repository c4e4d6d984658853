from dataclasses import fields, replace

import pytest

from analysis.audit import launches, redundancy
from analysis.audit.findings import RECORD_RULES
from tests.helpers.run_records import make_record, make_rounds, update_derived
from train.record import files, parts, protocol, record
from train.record.parts import Identity, JobEnd, assemble
from train.record.record import CoreUse, Operations, PlanPosition

SOURCE = {"train/a.py": "12"}
DIGEST = f"{files.source_digest(SOURCE)[:57]}..."


def alleged(name, run, path="the/record.json"):
    return [(finding.stated, finding.follows) for finding in RECORD_RULES[name](run, str(path))]


@pytest.fixture
def launched(tmp_path):
    """Write the run folder of a launch of two ranks; return the path of its record."""
    planned = make_record(nodes=2)
    planned.source_digest = files.source_digest(SOURCE)
    config = {**planned.config, "rounds_end_s": 60.0, "program": None}
    protocol.write_assignment(tmp_path, protocol.Assignment(config, planned.config_hash, 0, SOURCE, False, False))
    for rank in (0, 1):
        writer = parts.PartWriter(protocol.part_path(tmp_path, rank, "host0", 7), rank=rank, host="host0", cores=[rank])
        writer.add(phases_s={"start": 0.5, "import": 3.0, "init": 0.5})
        writer.add(phase="timed", phases_s={"warm_up": 1.0, "timed": 1.5}, step_times_s=[0.7500000004, 0.75])
        writer.add(timed_cores=CoreUse(1.5, 1.4, 1.4, 0.0), peak_memory_bytes=2**30, finished=True)
    identity = Identity(**{field.name: getattr(planned, field.name) for field in fields(Identity)})
    result = assemble(parts.read(tmp_path), identity, JobEnd(1_764_000_000.0, 7.0, cores_shared=False))
    (tmp_path / record.RECORD_NAME).write_bytes(record.dumps(result))
    return tmp_path / record.RECORD_NAME


def test_a_record_is_what_its_ranks_wrote(launched):
    run = record.load(launched)
    assert redundancy.parts_beside(run, str(launched))
    assert not alleged("record_and_parts", run, launched)
    run.ranks[1].phases_s["import"] -= 1
    run.ranks[1].phases_s["init"] += 1
    run.ranks[0].peak_memory_bytes //= 3
    source = ", as its rank wrote beside it"
    expected = [("ranks[0].peak_memory_bytes: 357913941, and 2 more values", f"1073741824{source}")]
    assert alleged("record_and_parts", run, launched) == expected
    # Without the files of all its ranks nothing is compared.
    assert not alleged("record_and_parts", replace(run, status="failed"), launched)
    assert not alleged("record_and_parts", replace(run, ranks=run.ranks[:1]), launched)
    exit_s = run.ranks[1].phases_s.pop("exit")  # by hand: no launcher put it together
    assert not alleged("record_and_parts", run, launched)
    run.ranks[1].phases_s["exit"] = exit_s
    protocol.part_paths(launched.parent)[0].unlink()
    assert not alleged("record_and_parts", run, launched)


@pytest.mark.parametrize("line", ['{"windows": 5}', '{"cores": {"a": 1}}', '{"phases_s": {"timed": "x"}}'])
def test_files_that_cannot_be_read_are_named(launched, line):
    with protocol.part_paths(launched.parent)[0].open("a") as file:
        file.write(f"{line}\n")
    ((stated, follows),) = alleged("record_and_parts", record.load(launched), launched)
    assert (stated, follows[:14]) == ("its ranks' files", "not to be read")


@pytest.mark.parametrize(
    ("config", "changes", "expected"),
    [
        ({}, {}, []),
        ({"batch_per_rank": 32}, {}, [("config.batch_per_rank: 32", "8, in run.json beside it")]),
        ({}, {"rounds_end_s": 60.0}, []),
        ({}, {"rounds_end_s": 40.0}, [("rounds_end_s: 40", "60, in run.json beside it")]),
        ({}, {"source_digest": "5" * 64}, [(f"source_digest: {'5' * 57}...", f"{DIGEST}, in run.json beside it")]),
    ],
)
def test_a_record_has_the_assignment_of_its_ranks(launched, config, changes, expected):
    run = replace(record.load(launched), **changes)
    run.config |= config
    assert alleged("record_and_assignment", run, launched) == expected


@pytest.mark.parametrize("text", ["", "[]", '{"config": 5}'])
def test_an_assignment_that_cannot_be_read_says_nothing(launched, text):
    protocol.assignment_path(launched.parent).write_text(text)
    assert not alleged("record_and_assignment", record.load(launched), launched)


WITHOUT_EFFECT = ["nodes=null", "results=/elsewhere", "measure.budget_s=9"]


@pytest.mark.parametrize(
    ("model", "arguments", "expected"),
    [
        ("resnet50", [], []),
        ("resnet50", ["nodes=4"], [("nodes: 2", "4, as its command says")]),  # the last one counts
        ("resnet50", ["model=vgg16"], [("model: resnet50", "vgg16, as its command says")]),
        ("resnet50", WITHOUT_EFFECT, []),
        ("resnet50", ['batch_per_rank="${choose:${model.name},{alexnet:16},8}"', "model=of_the_users_own"], []),
        # The command has the file of a model, the configuration its name.
        ("alexnet", ["model=alexnet_67"], []),
        ("alexnet", ["model=googlenet_64"], [("model: alexnet", "googlenet_64, as its command says")]),
    ],
)
def test_the_command_says_what_the_configuration_says(model, arguments, expected):
    run = make_record(nodes=2, model=model)
    run.command = ["python", "-m", "train", "experiment=weak_scaling", f"model={model}", "nodes=2", "batch_per_rank=8"]
    run.command += arguments
    assert alleged("command_and_config", run) == expected


def test_arms_and_points_are_called_after_their_settings():
    run = update_derived(make_rounds([(0.5, 0.8, 0.55)] * 6))
    assert not alleged("names_and_settings", run)
    base, _, control = run.config["rounds"]
    for arm in run.config["rounds"]:
        arm["name"] = f"nodes{arm['nodes']}-batch_per_rank{arm['batch_per_rank']}"
    control["name"] += "-without-allreduce"
    assert not alleged("names_and_settings", run)
    for arm, change, follows in (
        (base, {"batch_per_rank": 32}, "batch_per_rank 32 in its settings"),
        (control, {"allreduce": True}, "an allreduce in its settings"),
    ):
        before = dict(arm)
        arm.update(change)
        assert [reason for _, reason in alleged("names_and_settings", run)] == [follows]
        arm.update(before)


def test_a_model_has_the_same_gradients_everywhere():
    runs = [make_record(repeat=repeat) for repeat in range(3)]
    for run in runs:
        run.work = Operations(10, 4000)
    assert not [*redundancy.unequal_models([launches.launch(run, "path") for run in runs])]
    runs[0].work = Operations(10, 4004)
    (finding,) = redundancy.unequal_models([launches.launch(run, f"r{n}") for n, run in enumerate(runs)])
    assert finding.place == "r0"


def test_a_record_says_how_it_was_made():
    run = make_record()
    assert not alleged("missing_provenance", run)
    run.environment.versions, run.command = {}, []
    ((stated, _),) = alleged("missing_provenance", run)
    assert stated == "not in the record: the command, the versions"
    run.environment, run.source_digest = None, ""
    assert "the code (commit or digest), the hosts" in alleged("missing_provenance", run)[0][0]


def planned(*runs):
    """Return the findings about launches at successive positions of one plan, each with its repeat."""
    plan = []
    for position, (run, repeat) in enumerate(runs):
        run.order, run.repeat = PlanPosition(0, position, len(runs)), repeat
        plan.append(launches.launch(update_derived(run), f"launch {position}"))
    return [(finding.stated, finding.follows) for finding in redundancy.one_plan(plan)]


def test_launches_of_one_plan_have_one_configuration_of_a_point():
    curve = [(0.5, 0.8, 0.55)] * 6
    assert not planned((make_rounds(curve), 0), (make_record(), 0), (make_rounds(curve), 1), (make_record(nodes=2), 0))
    larger = make_record(batch_per_rank=32)
    ((stated, _),) = planned((make_record(), 0), (make_record(), 1), (larger, 2))
    assert stated == f"the configuration of resnet50_nodes=1: {larger.config_hash[:8]}"
    # A point and the arm that measures it.
    expected = [("the batch of a rank at model=resnet50, nodes=1, point: 32", "8, as in launch 0")]
    assert planned((make_rounds(curve), 0), (larger, 0)) == expected
    two_plans = [replace(run, order=PlanPosition(0, 0, 2)) for run in (make_record(), larger)]
    assert not [*redundancy.one_plan([launches.launch(run, "launch") for run in two_plans])]
