import pytest

from analysis.audit import launches, said_twice
from tests.helpers.findings import record_findings
from tests.helpers.own_records import make_record, make_rounds, settle
from train.record.record import GpuState, Order, Work

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
    (finding,) = said_twice.unequal_models([launches.launch(one, f"r{n}") for n, one in enumerate([run, *others])])
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
    made = []
    for position, (run, repeat) in enumerate(runs):
        run.order, run.repeat = Order(0, position, len(runs)), repeat
        settle(run)
        made.append(launches.launch(run, f"launch {position}"))
    return [(one.stated, one.follows) for one in said_twice.one_plan(made)]


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
    assert not [*said_twice.one_plan([launches.launch(settle(run), "launch") for run in runs])]
