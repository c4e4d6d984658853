from dataclasses import replace

import pytest

from record import run_files as files
from record.recorded_config import RankGroup
from record.schema import Host, HostState
from tests.helpers.configs import with_values
from train.config.checks import ConfigError
from train.config.compose import load
from train.config.measure_config import LaunchPlan
from train.rank import roll_call
from train.rank.roll_call import Details, Expected, Present, hosts_of_step, misplaced


@pytest.fixture(scope="module")
def config():
    return load(["experiment=weak_scaling", "model=tiny", "nodes=2", "ranks_per_node=2"])


FILES = {"train/a.py": "1" * 12, "train/b.py": "2" * 12}
OTHER_FILES = {**FILES, "train/a.py": "3" * 12}
PACKAGES = {"tensorflow": "2.18.1", "horovod": "0.28.1"}
OTHER_PACKAGES = {**PACKAGES, "tensorflow": "2.15.1"}
OPEN_MPI = {"mpi": "Open MPI v4.1.4"}


def host(name: str, cores: int = 4, flags: list[str] | None = None) -> Host:
    state = None if flags is None else HostState(*[None] * 7, cpu_flags=flags, gpus=[], gpu_topology=None)
    return Host(name, "Xeon", cores, 2**34, "6.1", [], state)


def present(rank: int, name: str, cores: tuple[int, ...]) -> Present:
    return Present(rank, host(name), cores, None, None, "hash", files.source_digest(FILES), PACKAGES)


GOOD = [present(0, "a", (0, 1)), present(1, "a", (2, 3)), present(2, "b", (0, 1)), present(3, "b", (2, 3))]
DETAILS = [Details({"nodes": 2, "model": {"name": "tiny"}}, FILES, PACKAGES)] * 4


def with_changes(ranks, **by_rank):
    """The ranks, some of which differ in these fields."""
    return [replace(rank, **by_rank.get(f"rank_{number}", {})) for number, rank in enumerate(ranks)]


ON_ONE_HOST = with_changes(GOOD, rank_2={"host": host("a"), "cores": (4,)}, rank_3={"host": host("a"), "cores": (5,)})


@pytest.mark.parametrize(
    ("ranks", "texts"),
    [
        (ON_ONE_HOST, ["there are 4 on a. Under Slurm: ", "srun --nodes=2 --ntasks-per-node=2"]),
        (ON_ONE_HOST[:3] + GOOD[3:], ["there are 3 on a, 1 on b. Under"]),
        ([replace(rank, cores=(0, 1)) for rank in GOOD], ["a, b: its 2 ranks need 4 cores and may use 2.", "task=2"]),
        ([replace(rank, gpu=gpu) for rank, gpu in zip(GOOD, "0001", strict=True)], ["a: 2 ranks share 1 GPU."]),
        (with_changes(GOOD, rank_3=OPEN_MPI), ["None, Open MPI v4.1.4"]),
    ],
    ids=["all on one host", "spread unevenly", "on one core", "on one GPU", "different MPI libraries"],
)
def test_ranks_in_the_wrong_place_are_named_with_what_to_do(config, ranks, texts):
    [problem] = misplaced(ranks, config, hosts=2)
    assert [text for text in texts if text not in problem] == []


def test_ranks_on_their_hosts_and_cores_are_accepted(config):
    assert misplaced(GOOD, config, hosts=2) == []
    # Nodes may share a machine, which may have fewer cores than they need.
    assert misplaced([replace(rank, host=host("a")) for rank in GOOD], config, hosts=1) == []


def test_a_rank_group_without_horovod_needs_no_mpi_library(config):
    groups = (RankGroup({"distribution.backend": "none"}, 0, 2), RankGroup({}, 2, 2))
    config = with_values(config, {"launch": LaunchPlan(rank_groups=groups)})
    assert misplaced(with_changes(GOOD, rank_2=OPEN_MPI, rank_3=OPEN_MPI), config, hosts=2) == []


def test_by_hand_the_variables_of_a_slurm_step_give_the_number_of_hosts(config):
    assert hosts_of_step(config, {}) == 1
    assert hosts_of_step(config, {"SLURM_STEP_NUM_NODES": "4"}) == 2


def test_what_some_hosts_lack_is_noted():
    assert roll_call.remarks([host("a"), host("b")], load([])) == []
    [output] = roll_call.remarks([host("a"), host("b", cores=8), host("c", cores=8)], load([]))
    assert output.endswith("slowest host: a: 4 cores, Xeon, no GPU; b, c: 8 cores, Xeon, no GPU")
    # A precision that some emulate.
    hosts = [host("a", flags=["avx512_bf16"]), host("b", flags=["avx2", "amx_tile"]), host("c")]
    hosts.append(host("d", flags=["amx_bf16"]))
    [output] = roll_call.remarks(hosts, load(["precision=bf16"]))
    assert "precision=bf16 is emulated on b: the processor has neither AVX512_BF16 nor AMX_BF16" in output
    for overrides in ([], ["precision=bf16", "device=gpu"]):
        assert roll_call.remarks(hosts, load(overrides)) == []


def test_conf_that_differs_on_a_host_is_noted_with_the_files():
    conf = files.conf_files()
    changed = conf | {"conf/config.yaml": "changed"}
    del changed["conf/measure/quick.yaml"]
    differing = tuple(files.differing(conf, changed))
    [note] = roll_call.other_conf([*GOOD[:2], *(replace(rank, other_conf=differing) for rank in GOOD[2:])])
    assert note.startswith("b: other files than the launcher: conf/config.yaml, conf/measure/quick.yaml. This run has")
    assert roll_call.other_conf(GOOD) == []


def hold(config, ranks, details=DETAILS, **expected):
    """Hold the roll call as rank 0 of these ranks; return its result or error, and the number of gathers."""
    answers = iter([list(ranks), list(details)])
    gathered = []

    def gather(value, kind):
        assert isinstance(value, kind)
        gathered.append(value)
        return next(answers)

    try:
        return roll_call.hold(ranks[0], details[0], Expected(**expected), config, gather), len(gathered)
    except ConfigError as error:
        return str(error), len(gathered)


def test_ranks_that_agree_are_asked_once(config):
    launcher = replace(DETAILS[0], packages={"tensorflow": "0"})
    assert hold(config, GOOD) == (GOOD, 1)
    assert hold(config, GOOD, hosts=2, config_hash="hash", launcher=launcher) == (GOOD, 1)


@pytest.mark.parametrize(
    ("present", "detail", "problem"),
    [
        ({"config_hash": "other"}, {"config": {"nodes": 2, "model": {"name": "vgg16"}}},
         "another configuration than rank 0 (a): model.name=vgg16 instead of tiny"),
        ({"source_digest": files.source_digest(OTHER_FILES)}, {"source": OTHER_FILES},
         "other files than rank 0 (a): train/a.py differs. All hosts and images need the same tree"),
        ({"packages": OTHER_PACKAGES}, {"packages": OTHER_PACKAGES},
         "other packages than rank 0 (a): tensorflow=2.15.1 instead of 2.18.1. Install the same ones on all hosts"),
    ],
    ids=["configuration", "files", "packages"],
)  # fmt: skip
def test_ranks_that_differ_from_rank_0_are_named_together_with_what_differs(config, present, detail, problem):
    ranks, details = (with_changes(same, rank_2=by, rank_3=by) for same, by in ((GOOD, present), (DETAILS, detail)))
    assert hold(config, ranks, details) == (f"rank 2 (b), rank 3 (b): {problem}", 2)


@pytest.mark.parametrize(
    ("config_hash", "changes", "problem"),
    [
        ("hash", {"source": OTHER_FILES}, "other files than the launcher: train/a.py differs."),
        ("hash", {"source": {**FILES, "train/c.py": ""}}, "other files than the launcher: train/c.py is missing."),
        ("other", {"config": {"nodes": 3}}, "another configuration than the launcher: model.name=tiny instead of None"),
    ],
)
def test_ranks_that_differ_from_the_launcher_are_named(config, config_hash, changes, problem):
    text, _ = hold(config, GOOD, config_hash=config_hash, launcher=replace(DETAILS[0], **changes))
    assert text.startswith(f"rank 0 (a), rank 1 (a), rank 2 (b), rank 3 (b): {problem}")
