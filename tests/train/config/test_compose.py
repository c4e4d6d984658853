import math
import re

import pytest

from train.config import compose as configuration
from train.config.compose import choices, compose_config, config_hash, load, point_name
from train.config.schema import ConfigError, scaled_learning_rate

SSH = ["launcher=ssh", "launcher.hosts=[a,b]"]
SWEEP = ["experiment=allreduce_bench", "nodes=2"]


@pytest.mark.parametrize("experiment", choices("experiment"))
def test_every_experiment_composes_on_cpu_and_gpu(experiment):
    for device in ("cpu", "gpu"):
        composed = compose_config([f"experiment={experiment}", f"device={device}"])
        assert composed.experiment == experiment
        assert composed.device == device


@pytest.mark.slow
@pytest.mark.parametrize(
    "group", ["model", "dataset", "optimizer", "distribution", "measure", "tracking", "launcher", "container"]
)
def test_every_choice_of_a_group_composes_and_is_called_what_its_file_is_called(group):
    for name in choices(group):
        composed = compose_config([f"{group}={name}"])
        # alexnet_67 is alexnet on images of 67 pixels
        assert composed[group].get("name", name) in (name, name.rpartition("_")[0])


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["model=vgg17"], "model=vgg17: there is no conf/model/vgg17.yaml; allowed are .*vgg16"),
        (["experiment=nap"], "experiment=nap: .*allowed are .*weak_scaling"),
        (["nodes=0"], "nodes=0: must be 1 or more"),
        (["nodes=x"], "nodes=x: must be of type integer"),
        (["device=tpu"], "device=tpu: allowed are cpu, gpu"),
        (["colour=red"], "colour: no such key; allowed here are .*batch_per_rank"),
        (["+colour=red"], "colour: no such key"),
        (["+model.colour=red"], "model.colour: no such key; allowed here are .*image_size"),
        (["precision=fp16"], "precision=fp16: .*with device=cpu allowed are fp32, bf16"),
        (["optimizer.learning_rate=fast"], "optimizer.learning_rate=fast: must be of type float"),
        (["optimizer.learning_rate_scaling=cubic"], "learning_rate_scaling=cubic: allowed are none, linear, sqrt"),
        (["batch_per_rank=null"], "batch_per_rank=None: give batch_per_rank or global_batch"),
        (["batch_per_rank=null", "global_batch=33", "nodes=2"], "global_batch=33: must be a multiple of 2 ranks"),
        (["batch_per_rank=4", "global_batch=9", "nodes=2"], "global_batch=9: contradicts batch_per_rank=4 on 2 ranks"),
        (["distribution=none", "nodes=2"], "distribution.backend=none: 2 ranks need a backend"),
        (["measure.total_steps=1", "nodes=2"], "measure.total_steps=1: 2 ranks need at least one step each"),
        (["measure.epochs=2"], "measure.epochs=2: synthetic data has no epochs"),
        (["~nodes"], "~nodes: nothing can be deleted"),
        (["nodes"], "missing EQUAL at '<EOF>'; allowed are overrides as key=value"),
        (["model="], "model=: allowed are alexnet, .*vgg16"),
        (["sweep.nodes=1"], "sweep.nodes=1: .*to sweep a key, give key=1,2"),
        (["optimizer.warm_up_epochs=1"], "optimizer.warm_up_epochs=1.0: synthetic data has no epochs"),
        (["optimizer.learning_rate=inf"], "optimizer.learning_rate=inf: must be above 0 and finite"),
        (["optimizer.learning_rate=nan"], "optimizer.learning_rate=nan: must be above 0 and finite"),
        (["optimizer.momentum=1"], "optimizer.momentum=1.0: must be 0 or more and below 1"),
        (["optimizer.label_smoothing=1"], "optimizer.label_smoothing=1.0: must be 0 or more and below 1"),
        (["optimizer.weight_decay=-1"], "optimizer.weight_decay=-1.0: must be 0 or more"),
        (["seed=-1"], "seed=-1: must be 0 or more"),
        (["model.name=vgg17"], "model.name=vgg17: allowed are .*vgg16, vgg19"),
        (["assumed=[optimizer.speed]"], "assumed=optimizer.speed: no such key"),
        (["dataset.training_samples=9"], "dataset.training_samples=.*synthetic data has no samples"),
        (["dataset=digits", "dataset.validation_samples=0"], "dataset.validation_samples=0: must be 1 or more"),
        (["container=lxc"], "container=lxc: there is no conf/container/lxc.yaml; allowed are docker, none, podman"),
        ([*SWEEP, "allreduce_sweep.smallest_bytes=1000"], "smallest_bytes=1000: must be a power of two, 32 bytes"),
        ([*SWEEP, "allreduce_sweep.largest_bytes=512"], "smallest_bytes=1024: must not be above largest_bytes=512"),
        ([*SWEEP, "allreduce_sweep.least_timed=30"], "least_timed=30: must be 1 or more, and not above most_timed=20"),
        ([*SWEEP, "nodes=1"], "nodes=1: an allreduce needs 2 ranks or more"),
        ([*SWEEP, "distribution.allreduce=false"], "an allreduce sweep needs backend=horovod and allreduce=true"),
        (["distribution.elastic=true"], "distribution.elastic=True: needs launcher=ssh"),
        (["distribution.elastic=true", *SSH], "distribution.elastic=True: needs measure.epochs above 0"),
        (["distribution.elastic=true", "distribution.controller=mpi"], "controller=mpi: elastic training needs gloo"),
        (["distribution.gradients=heap"], "distribution.gradients=heap: allowed are flat, grouped, separate"),
        (["measure.warm_up_steps=-1"], "measure.warm_up_steps=-1: must be 0 or more"),
    ],
)
def test_bad_values_are_named_with_what_is_allowed(overrides, message):
    with pytest.raises(ConfigError, match=message):
        load(overrides)


def test_a_wrong_key_in_a_file_is_named_with_the_file(tmp_path, monkeypatch):
    import shutil

    shutil.copytree(configuration.CONF, tmp_path / "conf")
    monkeypatch.setattr(configuration, "CONF", tmp_path / "conf")
    with (tmp_path / "conf/measure/quick.yaml").open("a") as file:
        file.write("\nwarmup: 3\n")
    with pytest.raises(ConfigError, match=r"conf/measure/quick.yaml: measure.warmup: no such key; allowed .*warm_up"):
        load([])


def test_batches_follow_from_each_other():
    weak = load(["nodes=4", "ranks_per_node=2", "batch_per_rank=3"])
    assert (weak.ranks, weak.global_batch) == (8, 24)
    strong = load(["nodes=4", "batch_per_rank=null", "global_batch=128"])
    assert (strong.ranks, strong.batch_per_rank) == (4, 32)


def test_fixed_work_shares_its_steps_out():
    # Report 000: 500 steps in all, 62 a worker on 8 GPUs.
    assert load(["measure.total_steps=500", "nodes=8"]).measure.timed_steps == 62


def test_the_hash_changes_with_what_is_measured_and_with_nothing_else():
    base = config_hash(load([]))
    for same in ("tracking=none", "results=/elsewhere", "measure.repeats=9", "launcher.timeout_s=5", "assumed=[model]"):
        assert config_hash(load([same])) == base, same
    for other in ("nodes=1", "batch_per_rank=3", "system.cores_per_node=1", "seed=1", "distribution.gradients=grouped"):
        assert config_hash(load([other])) != base, other


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_without_horovod_nothing_else_is_another(device):
    with_it, without = (
        configuration.resolved(load([f"device={device}", "nodes=1", f"distribution={name}"]))
        for name in ("horovod", "none")
    )
    assert without["distribution"] == with_it["distribution"] | {"backend": "none", "allreduce": False}
    assert without | {"distribution": None} == with_it | {"distribution": None}


def test_what_is_trained_counts_where_it_is_not_all():
    classifier = load(["model.train_layers=classifier"])
    assert configuration.resolved(classifier)["model"]["train_layers"] == "classifier"
    assert "train_layers" not in configuration.resolved(load([]))["model"]
    assert config_hash(classifier) != config_hash(load([])) == config_hash(load(["model.train_layers=all"]))
    with pytest.raises(ConfigError, match=r"model\.train_layers=last: allowed are all, classifier"):
        load(["model.train_layers=last"])


@pytest.mark.parametrize(
    ("experiment", "measure", "weights", "trained"),
    [("caltech256", "report", "imagenet", "classifier"), ("caltech256", "quick", "none", "classifier"),
     ("fruit", "report", "imagenet", "all"), ("fruit", "quick", "none", "all")],
)  # fmt: skip
def test_report_004_fine_tunes_fruit_and_trains_only_the_classifier_of_caltech256(
    experiment, measure, weights, trained
):
    config = load([f"experiment={experiment}", f"measure={measure}", "dataset.data_dir=/data"])
    assert (config.weights, config.model.train_layers) == (weights, trained)


def test_a_sweep_of_allreduces_doubles_and_does_not_depend_on_a_model():
    assert load(SWEEP).allreduce_sweep.sizes_bytes == [1024 * 2**k for k in range(20)]
    base = config_hash(load(SWEEP))
    assert config_hash(load([*SWEEP, "model=vgg16", "batch_per_rank=3", "measure=report"])) == base
    for other in ("distribution.controller=mpi", "nodes=4", "allreduce_sweep.most_timed=9"):
        assert config_hash(load([*SWEEP, other])) != base, other


def test_a_point_is_named_after_what_its_experiment_sweeps():
    assert point_name(load(["experiment=weak_scaling", "model=resnet50", "nodes=2"])) == "resnet50-nodes2"
    assert point_name(load(["experiment=overhead", "nodes=1"]), "one-rank") == "resnet50-one-rank"


@pytest.mark.parametrize(("largest", "expected"), [(1, "1"), (2, "1,2"), (6, "1,2,4,6"), (8, "1,2,4,8")])
def test_nodes_go_up_in_powers_of_two(largest, expected):
    assert compose_config(["experiment=weak_scaling", f"nodes={largest}"]).sweep.nodes == expected


@pytest.mark.parametrize("experiment", choices("experiment"))
def test_what_a_report_does_not_state_is_marked_each_with_its_reason(experiment):
    text = (configuration.CONF / "experiment" / f"{experiment}.yaml").read_text()
    entries = re.findall(r"^  - ([a-z_.]+)(.*)$", text.partition("assumed:")[2].partition("\nexperiment:")[0], re.M)
    assert [key for key, _ in entries] == list(compose_config([f"experiment={experiment}"]).assumed)
    assert all(re.match(r"  # \S.{10,}", reason) for _, reason in entries)


def test_the_record_says_what_is_assumed():
    loaded = load(["experiment=fruit", "dataset.data_dir=/data"])
    assert {"model.name", "weights"} <= set(configuration.resolved(loaded)["assumed"])
    assert load(["experiment=fruit", "dataset.data_dir=/data", "dataset.augmentation=null"]).assumed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("overrides", "image"),
    [
        (["container=podman"], "kit:cpu"),
        (["container=docker", "device=gpu"], "kit:cuda"),
        (["container=singularity", "container.mpi_home=/opt/mvapich2"], "images/kit-mvapich2.sif"),
        (["container=podman", "container.image=ours:1"], "ours:1"),
        ([], None),
    ],
)
def test_the_image_follows_from_container_and_device_unless_it_is_named(overrides, image):
    assert load(overrides).container.image == image


def test_a_gpu_keeps_horovod_s_own_defaults():
    for device, expected in (("cpu", ("flat", 20)), ("gpu", ("separate", 1))):
        tuned = load([f"device={device}"]).distribution
        assert (tuned.gradients, tuned.cycle_time_ms) == expected


def test_learning_rates_follow_the_rule():
    assert scaled_learning_rate(0.1, "none", 8) == pytest.approx(0.1)
    assert scaled_learning_rate(0.1, "linear", 8) == pytest.approx(0.8)
    assert scaled_learning_rate(0.1, "sqrt", 8) == pytest.approx(0.1 * math.sqrt(8))
