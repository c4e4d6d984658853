from operator import attrgetter

import pytest

from train.config.checks import ConfigError
from train.config.compose import load
from train.config.run_config import ExperimentConfig

TIMELINE = ["distribution.timeline=true", "measure.design=launches"]
ADASUM = ["distribution.op=adasum", "distribution.controller=mpi", "distribution.gradients=separate"]
MWMS = ["distribution.backend=mwms", "distribution.gradients=grouped"]
PS = ["distribution.backend=ps", "distribution.gradients=separate"]
APART = ["distribution.servers_on=nodes"]
PASSES = "distribution.backward_passes_per_step=3"
PS_CPU = ["distribution.backend=ps_cpu", "distribution.gradients=separate"]
SHAPE = ["ranks_per_node=2", "batch_per_rank=3"]
HOSTS = ("n1", "1e3", "10.0.0.7", "a-1.org", "my_host")
SWEEP = ["experiment=allreduce_bench", "nodes=2"]
STRONG = ["batch_per_rank=null", "global_batch=6", "nodes=2"]
FRUIT = ["dataset=fruit", "dataset.data_dir=/data"]
ZOOM = "dataset.augmentation.zoom_in_fraction=20"


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["nodes=0"], "nodes=0: must be 1 or more"),
        (["device=tpu"], "device=tpu: allowed are cpu, gpu"),
        (["precision=fp16"], "precision=fp16: .*with device=cpu allowed are fp32, bf16"),
        (["batch_per_rank=null"], "batch_per_rank=None: give batch_per_rank or global_batch"),
        ([*STRONG, "global_batch=33"], "global_batch=33: must be a multiple of 2 ranks"),
        (["batch_per_rank=4", "global_batch=9", "nodes=2"], "global_batch=9: contradicts batch_per_rank=4 on 2 ranks"),
        (["distribution.backend=none"], "distribution.backend=none: 2 ranks need .*=horovod, mwms, ps or ps_cpu"),
        (["measure.total_steps=1", "nodes=2"], "measure.total_steps=1: 2 ranks need at least one step each"),
        (["measure.epochs=2"], "measure.epochs=2: synthetic data has no epochs"),
        (["optimizer.warm_up_epochs=1"], "optimizer.warm_up_epochs=1.0: synthetic data has no epochs"),
        (["optimizer.learning_rate=inf"], "optimizer.learning_rate=inf: must be above 0 and finite"),
        (["optimizer.momentum=1"], "optimizer.momentum=1.0: must be 0 or more and below 1"),
        (["distribution.cycle_time_ms=0"], "distribution.cycle_time_ms=0.0: must be above 0 ms"),
        (["model.name=vgg17"], "model.name=vgg17: allowed are .*vgg16, vgg19"),
        (["assumed=[optimizer.speed]"], "assumed=optimizer.speed: no such key"),
        (["dataset.training_samples=9"], "dataset.training_samples=.*synthetic data has no samples"),
        ([*SWEEP, "allreduce_sweep.smallest_bytes=1000"], "smallest_bytes=1000: must be a power of two, 32 bytes"),
        ([*SWEEP, "allreduce_sweep.largest_bytes=512"], "smallest_bytes=1024: must not be above largest_bytes=512"),
        ([*SWEEP, "nodes=1"], "nodes=1: an allreduce needs 2 ranks or more"),
        ([*SWEEP, "distribution.allreduce=false"], "an allreduce sweep needs backend=horovod and allreduce=true"),
        (["distribution.op=adasum"], "distribution.controller=gloo: op=adasum needs another; set mpi"),
        ([*ADASUM, "distribution.gradients=flat"], "distribution.gradients=flat: op=adasum needs .* set separate"),
        ([*ADASUM, "nodes=3"], "distribution.op=adasum: needs a power of two of ranks, not 3; change nodes"),
        ([*STRONG, "distribution.backward_passes_per_step=4"], "global_batch=6: .* multiple of 2 ranks x 4 backward"),
        ([*TIMELINE, *MWMS], "distribution.backend=mwms: distribution.timeline=true needs another; it is Horovod's"),
        ([*TIMELINE, "nodes=1"], "nodes=1: distribution.timeline=true needs another; it shows exchanges: give 2 ranks"),
        (["distribution.timeline=true", "nodes=2"], "measure.design=rounds: .*true needs another; give launches: make"),
        ([*SWEEP, "distribution.timeline=true", "measure.design=launches"], "it shows training: make timeline"),
        ([*MWMS, "distribution.gradients=separate"], "gradients=separate: with backend=mwms allowed are grouped"),
        ([*PS, "distribution.gradients=flat"], "gradients=flat: servers take gradients variable by variable"),
        ([*PS, "distribution.allreduce=false"], "allreduce=False: with backend=ps there is none to leave out"),
        ([*PS, "distribution.servers=3"], "distribution.servers=3: allowed are 1 to the number of ranks, 2"),
        ([*PS, *APART, "ranks_per_node=2"], "ranks_per_node=2: distribution.servers_on=nodes needs 1: all nodes have"),
        ([*PS, *APART, "device=gpu"], "device=gpu: distribution.servers_on=nodes needs cpu: a server computes nothing"),
        ([*PS, "measure.epochs=1", "dataset.name=digits"], "measure.epochs=1: distribution.backend=ps needs another"),
        ([*PS, "dataset.name=digits"], "dataset=digits: distribution.backend=ps needs another; its coordinator gives"),
        ([*PS, "measure.split=true"], "measure.split=True: distribution.backend=ps needs another"),
        ([*PS, "weights=imagenet"], "weights=imagenet: with distribution.backend=ps allowed is none"),
        ([*PS_CPU, "distribution.backward_passes_per_step=2"], "passes_per_step=2: batch normalisation on several"),
        ([*MWMS, "distribution.port=80"], "distribution.port=80: must be 1024 or more and at most 65535, or null for"),
        (["launcher.hosts=[a,b,a]"], "launcher.hosts=a,b,a: duplicate: a"),
        (["launcher.hosts=[root@n1]"], "hosts=root@n1: give the name alone, and the user in ~/.ssh/config"),
        (["launcher.hosts=['fd00::2']"], "hosts=fd00::2: a host is a name or an IPv4 address, over which ranks"),
        (["launcher.hosts=['n1:2']"], "hosts=n1:2: give the name alone, and the ranks of each host as ranks_per_node"),
        (["launcher.hosts=['-oProxyCommand=x']"], "a host is a name or an IPv4 address"),
        (["launcher.hosts=[1e3]"], r"a name that looks like a number needs quotes: launcher.hosts=\['1e3'\]"),
        (["system.link_mbit_per_s=100"], "link_mbit_per_s=100.0: needs launcher=emulated launcher.separate_networks"),
        (["container.image=kit"], "container.image=kit: there is no container; choose container=docker"),
        (["container.name=singularity", "container.mpi_home=mpi"], "container.mpi_home=mpi: must be an absolute path"),
        (["dataset=fruit"], "data_dir=None: give the folder that holds fruit, as DATA_DIR=/data/fruit; docs/data.md"),
        ([*FRUIT, ZOOM], "zoom_in_fraction=20.0: must be 0 or more and at most 1"),
        ([*FRUIT, "dataset.augmentation.colour=1"], "augmentation.colour: no such key; allowed here are .*zoom_in"),
        (["weights=imagenet", "dataset.channels=1"], "weights=imagenet: there .* for resnet50 with 1. Allowed are"),
        (["weights=imagenet", "container.name=podman"], "weights=imagenet: a container has no folder for them"),
    ],
)
def test_bad_values_are_named_with_what_is_allowed(overrides, message):
    with pytest.raises(ConfigError, match=message):
        load(overrides)


@pytest.mark.parametrize("strategy", [MWMS, PS, PS_CPU], ids=["mwms", "ps", "ps_cpu"])
@pytest.mark.parametrize("setting", ["compression=fp16", "op=adasum", "autotune=True", "controller=mpi"])
def test_settings_of_horovod_alone_are_refused_with_every_strategy(strategy, setting):
    with pytest.raises(ConfigError, match=f"{setting}: .*{strategy[0].removeprefix('distribution.')}"):
        load([*strategy, f"distribution.{setting}"])


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["batch_per_rank=2", "global_batch=4"], {"derived": ()}),
        (["batch_per_rank=null", "global_batch=128"], {"batch_per_rank": 64, "derived": ("batch_per_rank",)}),
        (["batch_per_rank=4", PASSES], {"global_batch": 24, "step_batch": 12, "derived": ("global_batch",)}),
        (["batch_per_rank=null", "global_batch=24", PASSES], {"batch_per_rank": 4, "step_batch": 12}),
        (SHAPE, {"ranks": 4, "towers": 1, "processes": 4, "step_batch": 3, "global_batch": 12}),
        # one process takes the batches of all ranks
        ([*SHAPE, *PS_CPU], {"ranks": 4, "towers": 4, "processes": 1, "step_batch": 12, "global_batch": 12}),
        # servers on separate nodes are processes without a share of the batch
        (
            [*PS, *APART, "distribution.servers=2", "batch_per_rank=4"],
            {"ranks": 2, "global_batch": 8, "nodes": 2, "processes": 4, "ranks_of_job": 4, "all_nodes": 4},
        ),
        ([*PS, "distribution.servers=2"], {"processes": 2, "ranks_of_job": 2, "all_nodes": 2}),
        (APART, {"processes": 2, "all_nodes": 2}),  # Horovod has none
        # report 000: 500 steps in all, 62 a worker on 8 GPUs
        (
            ["measure.total_steps=500", "nodes=8"],
            {"measure.timed_steps": 62, "derived": ("global_batch", "measure.timed_steps")},
        ),
        ([*ADASUM, "nodes=1", "distribution.backend=none"], {"distribution.op": "adasum"}),
        (["container.name=docker", "device=gpu"], {"container.image": "kit:cuda"}),
        (
            ["container.name=singularity", "container.mpi_home=/opt/mvapich2"],
            {"container.image": "images/kit-mvapich2.sif"},
        ),
        (["container.name=podman", "container.image=ours:1"], {"container.image": "ours:1"}),
        (["weights=imagenet"], {"container.image": None}),
        (["launcher.hosts=[n1,'1e3',10.0.0.7,a-1.org,my_host]"], {"launcher.hosts": HOSTS}),
    ],
)
def test_values_follow_from_others(overrides, expected):
    config = load(["nodes=2", *overrides])
    assert {key: attrgetter(key)(config) for key in expected} == expected


def test_servers_on_separate_nodes_have_no_workers():
    apart, shared = (load([*PS, "distribution.servers=2", *more]) for more in (APART, []))
    assert [apart.workers_of(rank) for rank in range(4)] == [1, 1, 0, 0]
    assert shared.workers_of(1) == 1


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        ({"c": "base"}, "roles.c=base: no such arm; the arms are a, b"),
        ({"a": "in-memory"}, "roles.a=in-memory: allowed are base, control, point"),
    ],
)
def test_roles_must_be_known_and_those_of_arms(roles, message):
    with pytest.raises(ConfigError, match=message):
        ExperimentConfig(arms={"a": [], "b": ["seed=1"]}, roles=roles)
