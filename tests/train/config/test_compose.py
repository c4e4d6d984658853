import re
import shutil
from types import SimpleNamespace

import pytest

from tests.helpers.path_programs import write_program
from train.config import compose as configuration
from train.config.checks import ConfigError
from train.config.compose import choices, compose_config, load


@pytest.mark.slow  # composes them all
@pytest.mark.parametrize("experiment", choices("experiment"))
def test_every_experiment_composes_and_gives_a_reason_for_each_value_that_its_report_does_not_state(experiment):
    composed = [compose_config([f"experiment={experiment}", f"device={device}"]) for device in ("cpu", "gpu")]
    assert [(config.experiment, config.device) for config in composed] == [(experiment, "cpu"), (experiment, "gpu")]
    text = (configuration.CONF / "experiment" / f"{experiment}.yaml").read_text()
    entries = re.findall(r"^  - ([a-z_.]+)(.*)$", text.partition("assumed:")[2].partition("\nexperiment:")[0], re.M)
    assert [key for key, _ in entries] == list(composed[0].assumed)
    assert all(re.match(r"  # \S.{10,}", reason) for _, reason in entries)


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
        (["model=vgg17"], "model=vgg17: there is no conf/model/vgg17.yaml; did you mean vgg1[69]. allowed are .*vgg16"),
        (["nodes=x"], "nodes=x: must be of type integer"),
        (["colour=red"], "colour: no such key; allowed here are .*batch_per_rank"),
        (["+model.colour=red"], "model.colour: no such key; allowed here are .*image_size"),
        (["optimizer.learning_rate=fast"], "optimizer.learning_rate=fast: must be of type float"),
        (["~nodes"], "~nodes: nothing can be deleted"),
        (["nodes"], "nodes: no value; give key=value"),
        (["model="], "model=: allowed are alexnet, .*vgg16"),
        (["model=../../x"], "model=../../x: allowed are alexnet, .*vgg16"),
        (["model=vgg16,/tmp/x"], "model=vgg16,/tmp/x: allowed are alexnet, .*vgg16"),
        (["model=.x"], "model=.x: allowed are alexnet, .*vgg16"),
        (["sweep.nodes=1"], "sweep.nodes=1: .*to sweep a key, give key=1,2"),
        (["derived=[nodes]"], "derived=.*the kit fills this in"),
        (["model=glob(vgg*)"], r"model=glob\(vgg\*\): a sweep lists its values"),
    ],
)
def test_wrong_names_keys_and_types_are_named_with_what_is_allowed(overrides, message):
    with pytest.raises(ConfigError, match=message):
        load(overrides)


@pytest.fixture
def conf(tmp_path, monkeypatch):
    """A copy of conf/, which is read in its place."""
    shutil.copytree(configuration.CONF, tmp_path / "conf")
    monkeypatch.setattr(configuration, "CONF", tmp_path / "conf")
    return tmp_path / "conf"


def test_a_wrong_key_in_a_file_is_named_with_the_file(conf):
    with (conf / "measure/quick.yaml").open("a") as file:
        file.write("\nwarmup: 3\n")
    with pytest.raises(ConfigError, match=r"conf/measure/quick.yaml: measure.warmup: no such key; allowed .*warm_up"):
        load([])


def test_a_system_s_file_may_set_the_exchange_and_the_command_line_overrides_it(conf):
    """The file of `make tune WRITE=mine`, over the file of another system."""
    settings = "distribution:\n  gradients: grouped\nthreads_per_rank: 3\n"
    text = f"# @package _global_\ndefaults:\n  - osc_owens@system\n  - _self_\nsystem:\n  name: mine\n{settings}"
    (conf / "system/mine.yaml").write_text(text)
    mine = load(["system=mine"])
    assert (mine.system.name, mine.system.cores_per_node) == ("mine", 28)
    assert (mine.distribution.gradients, mine.threads_per_rank) == ("grouped", 3)
    mine = load(["system=mine", "distribution.gradients=separate", "threads_per_rank=2"])
    assert (mine.distribution.gradients, mine.threads_per_rank) == ("separate", 2)


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["experiment=weak_scaling", "nodes=3,8"], 8),
        (["experiment=overhead", "nodes=8"], 2),  # its arms have two at most
        (["experiment=weak_scaling", "nodes=4", "distribution.backend=ps", "distribution.servers_on=workers,nodes"], 5),
        (["experiment=strategies", "nodes=2", "distribution.servers_on=nodes", "distribution.servers=2"], 4),
        (["experiment=weak_scaling", "nodes=4", "distribution.servers_on=nodes"], 4),  # Horovod has none
    ],
)
def test_the_largest_number_of_nodes_is_that_of_the_points(overrides, expected):
    assert configuration.read_experiment(overrides).max_nodes == expected


@pytest.mark.parametrize(
    ("library", "mpicc", "without_mpi", "controllers"),
    [
        ("libmpi.so.40", False, "", "gloo,mpi"),
        ("libc.so.6", True, "", "gloo"),
        # before the set-up: those that it compiles
        (None, False, "", "gloo"),
        (None, True, "", "gloo,mpi"),
        (None, True, "1", "gloo"),
    ],
)
def test_the_controllers_of_a_plan_are_those_of_horovod_here(
    monkeypatch, tmp_path, library, mpicc, without_mpi, controllers
):
    package = SimpleNamespace(submodule_search_locations=[str(tmp_path)]) if library else None
    (tmp_path / "tensorflow").mkdir()
    (tmp_path / "tensorflow/mpi_lib.cpython-311-x86_64-linux-gnu.so").write_text(f"ELF {library} gloo")
    if mpicc:
        write_program(tmp_path / "mpicc", "")
    monkeypatch.setattr(configuration.importlib.util, "find_spec", lambda name: package)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOROVOD_WITHOUT_MPI", without_mpi)
    assert configuration._controllers_built_in.__wrapped__("none") == controllers
    assert configuration._controllers_built_in.__wrapped__("podman") == "gloo,mpi"
