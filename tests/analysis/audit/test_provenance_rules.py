from dataclasses import replace

import pytest

from analysis.audit import compared_launches, provenance_rules
from analysis.audit.findings import RECORD_RULES
from record.schema import Operations, PlanPosition
from tests.helpers.run_records import make_record, make_rounds, update_derived


def alleged(name, run, path="the/record.json"):
    return [(finding.stated, finding.follows) for finding in RECORD_RULES[name](run, str(path))]


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
    assert not [*provenance_rules.unequal_models([compared_launches.launch(run, "path") for run in runs])]
    runs[0].work = Operations(10, 4004)
    (finding,) = provenance_rules.unequal_models([compared_launches.launch(run, f"r{n}") for n, run in enumerate(runs)])
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
        plan.append(compared_launches.launch(update_derived(run), f"launch {position}"))
    return [(finding.stated, finding.follows) for finding in provenance_rules.one_plan(plan)]


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
    assert not [*provenance_rules.one_plan([compared_launches.launch(run, "launch") for run in two_plans])]
