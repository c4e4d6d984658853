import pytest

from analysis.figures import registry
from train.record.record import Epoch

EPOCHS = [Epoch(1, 10, 2.0, 1.0, 0.5, 1.0, 0.9)]


def ids(results):
    return [entry.id for entry in registry.experiment_figures(results.table())]


def test_a_sweep_over_ranks_per_node_has_the_figures_of_scaling(results):
    for ranks in (1, 2, 4):
        results.add(experiment="my_ranks", ranks_per_node=ranks, swept={"model": "resnet50", "ranks_per_node": ranks})
    assert ids(results) == [f"own-my-ranks-{name}" for name in ("throughput", "efficiency", "steps", "phases")]


def configured(key, value):
    """The configuration of a swept value; of a group its name."""
    return {f"{key}.name": value} if key == "optimizer" else {key: value}


@pytest.mark.parametrize(
    ("swept", "values", "found"),
    [
        ("optimizer.momentum", (0.0, 0.9), ["own-mine-throughput"]),
        ("distribution.fusion_threshold_bytes", (1, 5), ["own-mine-throughput"]),
        ("batch_per_rank", (4, 8), ["own-mine"]),
        ("optimizer", ("sgd", "adam"), ["own-mine-throughput"]),
        ("seed", (0, 1), ["own-mine-throughput"]),
    ],
)
def test_a_sweep_over_any_key_has_a_figure(results, swept, values, found):
    for repeat, value in enumerate(values):
        results.add(experiment="mine", repeat=repeat, swept={swept: value}, **configured(swept, value))
    assert ids(results) == found


def test_training_has_its_figures_and_the_final_accuracy_where_something_is_swept(results):
    results.add(experiment="alone", epochs=EPOCHS, swept={})
    results.add(experiment="swept", epochs=EPOCHS, swept={"optimizer.momentum": 0.9})
    names = [id.removeprefix("own-") for id in ids(results)]
    kinds_of = [name.removeprefix("alone-") for name in names if name.startswith("alone-")]
    assert kinds_of == ["curves", "time-to-accuracy", "usage", "throughput"]
    assert "swept-accuracy" in names


def test_runs_of_one_experiment_that_swept_other_keys_have_figures_of_their_own(results):
    for nodes in (1, 2):
        results.add(experiment="mine", nodes=nodes, swept={"nodes": nodes})
    for repeat, momentum in ((1, 0.0), (2, 0.9)):
        results.add(experiment="mine", repeat=repeat, swept={"optimizer.momentum": momentum})
    assert ids(results) == [
        "own-mine-throughput", "own-mine-efficiency", "own-mine-steps", "own-mine-phases",
        "own-mine-throughput-over-optimizer-momentum",
    ]  # fmt: skip


def test_controls_alone_have_no_figure(results):
    run = {"system.cpus_per_node": 0.2, "launcher": {"name": "emulated", "flat_within_fraction": 0.1}}
    results.add(experiment="mine", role="control", **run, **{"distribution.allreduce": False})
    assert ids(results) == []
