import itertools
from dataclasses import replace

import pytest

from tests.helpers.launch_plans import make_plan, plan_points
from train.config import compose
from train.config.checks import ConfigError
from train.config.compose import load
from train.config.identity import config_hash
from train.config.run_config import ExperimentConfig
from train.launch.launchers import LAUNCHERS
from train.launch.launchers.base import Hardware, Machine
from train.launch.launchers.local import Local
from train.launch.plan.make_plan import expand, make


def names(*overrides: str) -> list[str]:
    return [point.name.removeprefix("tiny-") for point in plan_points(*overrides)]


def test_points_are_chosen_by_their_names(monkeypatch):
    overrides = ("experiment=weak_scaling", "model=tiny", "nodes=2", "measure.separate_launches=true")
    machine, points = Machine(2, "no control groups"), ["tiny-nodes1", "tiny-rounds"]
    for only, chosen in ((None, points), ("tiny-rounds", points[1:])):
        plan = make(overrides, machine, only)
        assert ([point.name for point in plan.points], plan.spanned, plan.without_rounds) == (chosen, 2, ())
    with pytest.raises(ConfigError, match="--only tiny-nodes9: no such point; allowed are tiny-nodes1, tiny-rounds"):
        make(overrides, machine, "tiny-rounds,tiny-nodes9")
    monkeypatch.setattr(Local, "hardware", lambda self, config: [Hardware("a", 0)])
    with pytest.raises(ConfigError, match="device=gpu: tiny-nodes1 needs 1 GPUs; a has 0"):
        make((*overrides, "device=gpu"), machine)


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ("batch_sweep model=tiny", [f"batch_per_rank{n}" for n in (1, 2, 4, 8, 16, 32, 64, 128)]),
        ("weak_scaling model=tiny nodes=4", ["nodes1", "nodes2", "nodes4"]),
        ("weak_scaling model=tiny,vgg16 nodes=2,1,2", ["nodes2", "nodes1", "vgg16-nodes2", "vgg16-nodes1"]),
        (  # a sweep that the experiment does not have
            "weak_scaling model=tiny nodes=1 distribution.cycle_time_ms=1,5",
            ["nodes1-cycle_time_ms1", "nodes1-cycle_time_ms5"],
        ),
        # not the share of the machine that a node would have
        (
            "weak_scaling model=tiny nodes=1 system.cores_per_node=1,2",
            ["nodes1-cores_per_node1", "nodes1-cores_per_node2"],
        ),
        ("weak_scaling model=tiny nodes=1 tracking.notes=first,quiet", ["nodes1"]),  # it changes nothing measured
    ],
)
def test_the_points_are_those_of_the_experiment_and_of_the_command_line(overrides, expected):
    assert names(*f"experiment={overrides}".split()) == expected


HOSTS = "launcher=ssh launcher.hosts=[a,b] system.cores_per_node=4 system.gpus_per_node=2"


@pytest.mark.parametrize(
    ("nodes", "given", "machine", "added", "threads"),
    [
        (2, "", Machine(cores=8, threads=16), "system.cores_per_node=4", 4),
        (8, "", Machine(cores=2, no_quotas="no control groups"), "system.cores_per_node=1", 1),
        (4, "system.smt=true", Machine(cores=8, threads=16), "system.cores_per_node=4", 4),
        (2, f"{HOSTS} device=gpu", Machine(1), "ranks_per_node=2", 2),  # one for each GPU
        (2, f"{HOSTS} device=gpu ranks_per_node=1", Machine(1), "", 4),
        (2, f"{HOSTS} device=cpu", Machine(1), "", 4),
    ],
)
def test_a_node_is_the_same_machine_at_every_point(nodes, given, machine, added, threads):
    fixed = ["experiment=weak_scaling", *given.split()]
    points = expand([*fixed, "model=tiny", f"nodes={nodes}"], machine).points
    assert [point.overrides for point in points] == [
        (*fixed, *added.split(), "model=tiny", f"nodes={n}", f"threads_per_rank={threads}")
        for n in (1, 2, 4, 8)
        if n <= nodes
    ]


def test_a_strategy_that_a_point_cannot_have_is_left_out_there_and_the_others_run():
    servers = ("distribution.backend=ps", "distribution.gradients=separate", "distribution.servers=1,2")
    plan = make_plan("experiment=weak_scaling", "model=tiny", "nodes=2", *servers)
    assert [point.name for point in plan.points] == [
        f"tiny-nodes{n}" for n in ("1-servers1", "2-servers1", "2-servers2")
    ]
    assert [text.partition(",")[0] for text in plan.left_out] == [
        "distribution.servers=2: allowed are 1 to the number of ranks"
    ]


def test_a_strategy_that_has_no_control_is_left_out_on_emulated_nodes():
    backends = ("distribution.backend=horovod,ps", "distribution.gradients=separate")
    plan = make_plan("experiment=weak_scaling", "model=tiny", "nodes=3", *backends, no_quotas=None)
    assert [(point.name.removeprefix("tiny-nodes"), point.role) for point in plan.points] == [
        ("1-backendhorovod", "point"), ("1-backendhorovod-without-allreduce", "control"), ("2-backendhorovod", "point"),
        ("3-backendhorovod", "point"), ("3-backendhorovod-without-allreduce", "control"),
    ]  # fmt: skip
    [output] = plan.left_out
    assert output.startswith("distribution.backend=ps: it has no run without allreduce")


# The settings of the reports: epochs, or steps of all ranks together; batch per rank; learning rate; networks; GPUs.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("experiment", "epochs", "steps", "batch", "optimizer", "models", "fine_tuned"),
    [
        ("cifar10", 0, {"vgg19": 500, "resnet101v2": 500, "inceptionv4": 200}, 64, None, 3, None),
        ("fruit", 10, {}, 32, ("adam", 0.1, "linear"), 1, "all"),
        ("caltech256", 30, {}, 32, ("adadelta", 1.0, "linear"), 1, "classifier"),
        ("imdb_wiki", 5, {}, 128, None, 3, None),
    ],
)
def test_experiments_have_the_settings_of_their_reports(
    experiment, epochs, steps, batch, optimizer, models, fine_tuned
):
    fixed = ["dataset.data_dir=/data", "measure=report", "device=gpu", "nodes=8"]
    configs = [point.config for point in plan_points(f"experiment={experiment}", *fixed, cores=8)]
    assert [config.nodes for config in configs] == [1, 2, 4, 8] * models
    for config in configs:
        assert (config.measure.epochs, config.batch_per_rank) == (epochs, batch)
        assert config.measure.total_steps == steps.get(config.model.name)
        o = config.optimizer
        assert optimizer in (None, (o.name, o.learning_rate, o.learning_rate_scaling))
        assert config.dataset.training_samples is None
        assert fine_tuned in (None, config.model.train_layers)
        assert config.weights == ("imagenet" if fine_tuned else "none")


@pytest.mark.slow
def test_real_and_synthetic_images_are_compared_as_in_the_report():
    points = plan_points("experiment=tf_benchmarks", "dataset.data_dir=/data", "measure=report", "nodes=8", cores=8)
    cells = [(c.model.name, c.dataset.name, c.batch_per_rank, c.ranks) for c in (point.config for point in points)]
    swept = (("inceptionv3", "resnet50"), ("synthetic", "imagenet"), (64, 32), (1, 2, 4, 8))
    assert cells == [*itertools.product(*swept)]


@pytest.mark.slow
@pytest.mark.parametrize("experiment", ["cifar10", "fruit", "caltech256", "imdb_wiki", "tf_benchmarks"])
def test_quick_is_small(experiment):
    for point in plan_points(f"experiment={experiment}", "dataset.data_dir=/data"):
        c = point.config
        images = c.measure.epochs * (c.dataset.training_samples or 0) or c.measure.timed_steps * (c.global_batch or 0)
        assert images <= 256
        assert c.measure.epochs == 0 or c.dataset.validation_samples <= 64
        assert c.weights == "none"


@pytest.mark.slow
@pytest.mark.parametrize(  # with arms, controls, rank groups, epochs, a program
    "experiment", ["tune", "strong_scaling", "network_sweep", "ranks_threads", "accuracy_digits", "scaling"]
)
def test_the_overrides_of_a_point_compose_it_again(experiment):
    for point in plan_points(f"experiment={experiment}", no_quotas=None)[-2:]:
        assert config_hash(load(list(point.overrides))) == config_hash(point.config)


@pytest.mark.parametrize(
    ("experiment", "override", "message"),
    [
        ("weak_scaling", "nodes=1,x", "nodes=x"),
        ("strong_scaling", "nodes=3,6", "global_batch=32: must be a multiple of 3 ranks"),  # no point is left
        ("network_sweep", "seed=1", "need CPU quotas: no control groups"),
        ("weak_scaling", "launcher=local,ssh", "^launcher=ssh: all points of an experiment run under one launcher"),
    ],
)
def test_bad_overrides_stop_before_anything_runs(experiment, override, message):
    with pytest.raises(ConfigError, match=message):
        plan_points(f"experiment={experiment}", "model=tiny", override)


def test_competing_arms_that_are_the_same_here_are_left_out():
    plan = make_plan("experiment=tune", "model=tiny", "nodes=2", cores=2)
    arms = {point.arm: point.config for point in plan.points}
    assert list(arms)[:3] == ["as-configured", "gradients-grouped", "gradients-separate"]
    assert "gradients-flat: the same as as-configured here" in plan.left_out
    assert "one-core-free: the same as as-configured here" in plan.left_out  # a node has one core
    assert arms["horovods-autotuner"].distribution.autotune


@pytest.fixture
def expand_arms(monkeypatch):
    """Expand an experiment with these arms and roles, on emulated nodes."""
    read = compose.read_experiment

    def expand(arms: dict[str, list[str]], roles: dict[str, str], *overrides: str):
        config = ExperimentConfig(sweep={"model": "tiny"}, arms=arms, roles=roles)
        monkeypatch.setattr(compose, "read_experiment", lambda lines: replace(read(lines), config=config))
        return make_plan("experiment=weak_scaling", "launcher=emulated", *overrides, no_quotas=None)

    return expand


def test_the_base_is_measured_of_competing_arms_that_are_the_same(expand_arms):
    result = expand_arms({"same": [], "mine": []}, {"mine": "base"}, "measure.compete=true")
    assert [(point.arm, point.role) for point in result.points] == [("mine", "base")]
    assert result.left_out == ("same: the same as mine here",)


def test_a_role_that_a_point_cannot_have_is_refused(expand_arms):
    with pytest.raises(ConfigError, match=r"roles\.a=control: a control needs distribution.allreduce=false"):
        expand_arms({"a": [], "b": ["seed=1"]}, {"a": "control"})


def test_where_nodes_outnumber_cores_they_are_emulated_with_a_control():
    points = plan_points("experiment=weak_scaling", "nodes=1,5", "launcher=emulated", no_quotas=None)
    suffixes = ("nodes1", "nodes1-without-allreduce", "nodes5", "nodes5-without-allreduce")
    assert [p.name for p in points] == [f"{model}-{p}" for model in ("alexnet", "googlenet") for p in suffixes]
    for config in (point.config for point in points):
        assert (config.launcher.name, config.threads_per_rank) == ("emulated", 1)
        assert config.batch_per_rank == {"alexnet": 16, "googlenet": 8}[config.model.name]
        assert config.system.cpu_quota_per_node == 0.2667  # 0.8 of a core for three nodes, also for a single one
    assert all(p.config.distribution.allreduce == (p.arm != "without-allreduce") for p in points)
    assert {point.arm_keys for point in points} == {()}
    timeline = ("distribution.timeline=true", "measure.design=launches")
    points = plan_points("experiment=weak_scaling", "model=tiny", "nodes=2,3", *timeline, no_quotas=None)
    assert [(p.name, p.config.launcher.name) for p in points] == [(f"tiny-nodes{n}", "emulated") for n in (2, 3)]
    assert {p.config.batch_per_rank for p in points} == {1}  # the model is the user's, and so is its batch
    emulated, off = "launcher=emulated", "distribution.allreduce=false"
    for more, role in (((emulated, off), "control"), ((emulated, "distribution=none"), "point"), ((off,), "point")):
        [point] = plan_points("experiment=weak_scaling", "model=tiny", "nodes=1", *more, no_quotas=None)
        assert (point.name, point.role) == ("tiny-nodes1", role)


@pytest.mark.parametrize(
    ("overrides", "no_quotas", "launcher"),
    [
        ("weak_scaling model=tiny nodes=3", None, "emulated"),
        ("weak_scaling model=tiny nodes=3", "no control groups", "local"),
        ("weak_scaling model=tiny nodes=3 launcher=emulated", "no control groups", "local"),
        ("weak_scaling model=tiny nodes=3 launcher=local", None, "local"),  # the user wants shared cores
        ("weak_scaling model=tiny nodes=2", None, "local"),  # a core for each
        ("weak_scaling model=tiny nodes=3 system.emulate=false", None, "local"),
        ("weak_scaling model=tiny nodes=3 device=gpu", None, "local"),
        ("weak_scaling model=tiny nodes=3 distribution.backend=ps", None, "local"),  # no control
        ("weak_scaling model=tiny nodes=3 distribution.backend=ps_cpu", None, "local"),  # one process
        ("weak_scaling model=tiny nodes=3 measure.epochs=1", None, "local"),
        ("overhead model=tiny ranks_per_node=2", None, "local"),  # arms
        ("allreduce_bench nodes=3", None, "local"),
    ],
)
def test_nodes_that_outnumber_cores_are_emulated_if_possible(overrides, no_quotas, launcher):
    experiment = compose.read_experiment(f"experiment={overrides}".split())
    chosen = LAUNCHERS[experiment.composed.launcher.name]
    assert chosen.replacement(experiment, Machine(2, no_quotas)) == launcher


def strong_points(*overrides):
    settings = ("experiment=strong_scaling", "model=tiny", "nodes=4", "global_batch=16", *overrides)
    points = plan_points(*settings, no_quotas=None)
    assert [p.role for p in points] == ["control" if p.arm else "point" for p in points]
    return [(p.name.removeprefix("tiny-"), p.config.nodes, p.config.batch_per_rank) for p in points]


def test_in_strong_scaling_a_control_is_compared_with_a_node_alone_that_has_its_batch():
    on_1 = [("nodes1", 1, 16), ("nodes1-without-allreduce", 1, 16)]
    on_2 = [("nodes2", 2, 8), ("nodes2-without-allreduce", 2, 8), ("nodes1-alone-as-1-of-2", 1, 8)]
    on_4 = [("nodes4", 4, 4), ("nodes4-without-allreduce", 4, 4), ("nodes1-alone-as-1-of-4", 1, 4)]
    assert strong_points() == [*on_1, on_2[0], *on_4]
    assert strong_points("nodes=1,4,6") == [*on_1, *on_4]  # six nodes cannot share 16 images: the largest is four
    assert strong_points("nodes=2,4", "measure.controls=all") == [*on_2, *on_4]
    assert strong_points("measure.controls=none") == [on_1[0], on_2[0], on_4[0]]


@pytest.mark.parametrize(
    ("cores", "each", "nodes", "possible"), [(6, 3, "3", [1, 2]), (2, 1, "3", [1, 2]), (2, 1, "2,3", [2])]
)
def test_nodes_divide_the_machine_by_the_largest_point_that_is_possible(cores, each, nodes, possible):
    plan = make_plan("experiment=strong_scaling", "model=tiny", f"nodes={nodes}", cores=cores, no_quotas=None)
    assert [point.config.nodes for point in plan.points] == possible
    assert {p.config.system.cores_per_node for p in plan.points} == {each}
    assert {p.config.launcher.name for p in plan.points} == {"local"}
    [output] = plan.left_out
    assert "nodes=3" in output
