import subprocess
from dataclasses import fields

import pytest

from analysis.audit import launches, redundancy
from analysis.audit.findings import RECORD_RULES
from tests.helpers.findings import record_findings
from tests.helpers.own_records import make_record, make_rounds, settle
from train.record import files, parts, protocol, record
from train.record.parts import Identity, JobEnd, assemble
from train.record.record import CoreUse, GpuState, Order, Work

SOURCE = {"train/a.py": "12"}


def found(name, run, path):
    return [(one.stated, one.follows) for one in RECORD_RULES[name](run, str(path))]


@pytest.fixture
def launched(tmp_path):
    """A run folder as a launch of two ranks leaves it; the path of its record."""
    planned = make_record(nodes=2)
    planned.source_digest = files.source_digest(SOURCE)
    asked = {**planned.config, "measure": {**planned.config["measure"], "budget_s": 60.0}, "program": None}
    protocol.write_assignment(tmp_path, protocol.Assignment(asked, planned.config_hash, 0, SOURCE, False, False))
    for rank in (0, 1):
        writer = parts.PartWriter(protocol.part_path(tmp_path, rank, "host0", 7), rank=rank, host="host0", cores=[rank])
        writer.add(phases_s={"start": 0.5, "import": 3.0, "init": 0.5})
        writer.add(phase="timed", phases_s={"warm_up": 1.0, "timed": 1.5}, step_times_s=[0.7500000004, 0.75])
        writer.add(timed_cores=CoreUse(1.5, 1.4, 1.4, 0.0), peak_memory_bytes=2**30, finished=True)
    identity = Identity(**{one.name: getattr(planned, one.name) for one in fields(Identity)})
    result = assemble(parts.read(tmp_path), identity, JobEnd(1_764_000_000.0, 7.0, cores_shared=False))
    (tmp_path / record.RECORD_NAME).write_bytes(record.dumps(result))
    return tmp_path / record.RECORD_NAME


def test_a_record_is_what_its_ranks_wrote(launched):
    run = record.load(launched)
    assert redundancy.parts_beside(run, str(launched))
    assert not found("record_and_parts", run, launched)
    run.ranks[1].phases_s["import"] -= 1
    run.ranks[1].phases_s["init"] += 1
    run.ranks[0].peak_memory_bytes //= 3
    by = ", as its rank wrote beside it"
    assert found("record_and_parts", run, launched) == [
        ("ranks[0].peak_memory_bytes: 357913941, and 2 more values", f"1073741824{by}")
    ]


def test_without_the_files_of_all_its_ranks_nothing_is_compared(launched):
    run = record.load(launched)
    run.ranks[0].peak_memory_bytes = 1
    for change in ({"status": "failed"}, {"ranks": run.ranks[:1]}):
        before = {name: getattr(run, name) for name in change}
        vars(run).update(change)
        assert not found("record_and_parts", run, launched)
        vars(run).update(before)
    assert found("record_and_parts", run, launched)
    del run.ranks[1].phases_s["exit"]  # by hand: no launcher put it together
    assert not found("record_and_parts", run, launched)
    protocol.part_paths(launched.parent)[0].unlink()
    assert not found("record_and_parts", run, launched)


@pytest.mark.parametrize("line", ['{"windows": 5}', '{"cores": {"a": 1}}', '{"phases_s": {"timed": "x"}}'])
def test_files_that_cannot_be_read_are_named(launched, line):
    with protocol.part_paths(launched.parent)[0].open("a") as file:
        file.write(f"{line}\n")
    ((stated, follows),) = found("record_and_parts", record.load(launched), launched)
    assert (stated, follows[:14]) == ("its ranks' files", "not to be read")


def test_a_record_has_the_configuration_that_its_ranks_were_given(launched):
    run = record.load(launched)
    assert not found("record_and_assignment", run, launched)
    run.config["batch_per_rank"] = 32
    by = ", in run.json beside it"
    assert found("record_and_assignment", run, launched) == [("config.batch_per_rank: 32", f"8{by}")]
    run.config["batch_per_rank"] = 8
    run.source_digest = "5" * 64
    assert found("record_and_assignment", run, launched)[0][0] == f"source_digest: {'5' * 57}..."


def test_the_end_of_the_rounds_is_that_which_the_ranks_were_given(launched):
    run = record.load(launched)
    run.rounds_end_s = 60.0
    assert not found("record_and_assignment", run, launched)
    run.rounds_end_s = 40.0
    assert found("record_and_assignment", run, launched) == [("rounds_end_s: 40", "60, in run.json beside it")]


@pytest.mark.parametrize("text", ["", "[]", '{"config": 5}'])
def test_an_assignment_that_cannot_be_read_says_nothing(launched, text):
    protocol.assignment_path(launched.parent).write_text(text)
    assert not found("record_and_assignment", record.load(launched), launched)


@pytest.fixture
def committed(tmp_path, monkeypatch):
    """A repository with one commit; the commit and the digest of its code."""
    root = tmp_path / "kit"
    for name in ("train/a.py", "train/b/c.py", "conf/d.yaml", "conf/notes.txt"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    git = ["git", "-C", str(root), "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *arguments], check=True)
    commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    monkeypatch.setattr(files, "ROOT", root)
    return commit, files.source_digest(files.source_files(root))


def test_a_clean_commit_has_the_digest_of_the_code_that_ran(committed):
    run = make_record()
    run.environment.git_commit, run.source_digest = committed
    assert not found("commit_and_digest", run, "the/record.json")
    run.source_digest = "5" * 64
    assert len(found("commit_and_digest", run, "the/record.json")) == 1
    run.environment.git_dirty = True
    assert not found("commit_and_digest", run, "the/record.json")


@pytest.mark.parametrize("commit", ["0" * 40, "HEAD", "--output=x", None])
def test_a_commit_that_is_not_in_this_repository_says_nothing(committed, commit):
    run = make_record()
    run.environment.git_commit = commit
    assert not found("commit_and_digest", run, "the/record.json")


COMMAND = ["python", "-m", "train", "experiment=weak_scaling", "model=resnet50", "nodes=2", "batch_per_rank=8"]


def test_the_command_says_what_the_configuration_says():
    run = make_record(nodes=2)
    run.command = COMMAND
    assert not record_findings("command_and_config", run)
    run.command = [*COMMAND, "nodes=4"]  # the last one counts
    (finding,) = record_findings("command_and_config", run)
    assert (finding.stated, finding.follows) == ("nodes: 2", "4, as its command says")
    run.command = [*COMMAND, "model=vgg16"]
    assert record_findings("command_and_config", run)
    run.command = [*COMMAND, "nodes=null", "results=/elsewhere", "measure.budget_s=9"]
    assert not record_findings("command_and_config", run)
    run.command = [*COMMAND, 'batch_per_rank="${choose:${model.name},{alexnet:16},8}"', "model=of_the_users_own"]
    assert not record_findings("command_and_config", run)


def test_a_model_is_called_by_its_file_in_the_command_and_by_its_name_in_the_configuration():
    run = make_record(model="alexnet")
    run.command = ["python", "-m", "train", "model=alexnet_67"]
    assert not record_findings("command_and_config", run)
    run.command = ["python", "-m", "train", "model=googlenet_64"]
    assert record_findings("command_and_config", run)


@pytest.mark.parametrize(("value", "alleged"), [("20.0", False), ("20", False), ("3.5", True)])
def test_the_variables_say_what_the_configuration_says(value, alleged):
    run = make_record(nodes=2)
    run.config["distribution"] |= {"backend": "horovod", "cycle_time_ms": 20.0}
    run.environment.variables = {"HOROVOD_CYCLE_TIME": value, "HOROVOD_SIZE": "2"}
    assert bool(record_findings("variables_and_config", run)) is alleged
    run.environment.variables = {"HOROVOD_SIZE": "8"}
    assert record_findings("variables_and_config", run)


def test_arms_and_points_are_called_after_their_settings():
    run = settle(make_rounds([(0.5, 0.8, 0.55)] * 6))
    assert not record_findings("names_and_settings", run)
    for arm in run.config["rounds"]:
        arm["name"] = f"nodes{arm['nodes']}-batch_per_rank{arm['batch_per_rank']}"
    run.config["rounds"][2]["name"] += "-without-allreduce"
    assert not record_findings("names_and_settings", run)
    run.config["rounds"][0]["batch_per_rank"] = 32
    (finding,) = record_findings("names_and_settings", run)
    assert finding.follows == "batch_per_rank 32 in its settings"
    run.config["rounds"][0]["batch_per_rank"] = 8
    run.config["rounds"][2]["allreduce"] = True
    (finding,) = record_findings("names_and_settings", run)
    assert finding.follows == "an allreduce in its settings"


def test_a_model_has_no_more_gradients_than_parameters_and_the_same_everywhere():
    run = make_record()
    run.config["model"]["parameters"] = 1000
    run.work = Work(10, 4000)
    assert not record_findings("gradients_and_parameters", run)
    run.work = Work(10, 4004)
    assert record_findings("gradients_and_parameters", run)
    others = [make_record(repeat=n) for n in (1, 2)]
    for other in others:
        other.work = Work(10, 4000)
    (finding,) = redundancy.unequal_models([launches.launch(one, f"r{n}") for n, one in enumerate([run, *others])])
    assert finding.place == "r0"


def test_a_record_says_how_it_was_made():
    run = make_record()
    assert not record_findings("missing_provenance", run)
    run.environment.versions, run.command = {}, []
    (finding,) = record_findings("missing_provenance", run)
    assert finding.stated == "not in the record: the command, the versions"
    run.environment, run.source_digest = None, ""
    assert "the code (commit or digest), the hosts" in record_findings("missing_provenance", run)[0].stated


def test_gpus_are_where_a_record_says_they_are():
    run = make_record()
    assert not record_findings("gpus_and_device", run)
    run.environment.hosts[0].gpus = ["NVIDIA A100"]
    (finding,) = record_findings("gpus_and_device", run)
    assert (finding.stated, finding.follows) == ("host0: NVIDIA A100", "none, by its driver")
    run.environment.hosts[0].state.gpus = [GpuState("NVIDIA A100", "1", None, None, None, None)]
    assert not record_findings("gpus_and_device", run)
    run.ranks[0].gpu = "NVIDIA A100"
    (finding,) = record_findings("gpus_and_device", run)
    assert (finding.stated, finding.follows) == ("rank 0: NVIDIA A100", "device=cpu")
    run.config["device"] = "gpu"
    assert not record_findings("gpus_and_device", run)
    run.ranks[0].compute_times_s = [0.4]
    assert record_findings("gpus_and_device", run)


def planned(*runs):
    """Launches at these positions of one plan."""
    plan = []
    for position, (run, repeat) in enumerate(runs):
        run.order, run.repeat = Order(0, position, len(runs)), repeat
        settle(run)
        plan.append(launches.launch(run, f"launch {position}"))
    return [(one.stated, one.follows) for one in redundancy.one_plan(plan)]


def test_launches_of_one_plan_have_one_configuration_of_a_point():
    curve = [(0.5, 0.8, 0.55)] * 6
    assert not planned((make_rounds(curve), 0), (make_record(), 0), (make_rounds(curve), 1), (make_record(nodes=2), 0))
    other = make_record(batch_per_rank=32)
    ((stated, _),) = planned((make_record(), 0), (make_record(), 1), (other, 2))
    assert stated == f"the configuration of resnet50_nodes=1: {other.config_hash[:8]}"
    ((stated, follows),) = planned((make_rounds(curve), 0), (other, 0))  # a point and the arm that measures it
    assert stated == "the batch of a rank at model=resnet50, nodes=1, point: 32"
    assert follows == "8, as in launch 0"


def test_two_plans_may_differ():
    runs = [make_record(), make_record(batch_per_rank=32)]
    for run in runs:
        run.order = Order(0, 0, 2)
    assert not [*redundancy.one_plan([launches.launch(settle(run), "launch") for run in runs])]
