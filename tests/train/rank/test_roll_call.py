from dataclasses import replace

import pytest

from tests.helpers.configs import changed
from train.config.checks import ConfigError
from train.config.compose import load
from train.config.schema import LaunchPlan, RankGroup
from train.rank import roll_call
from train.rank.roll_call import Details, Expected, Present, hosts_of_step, misplaced
from train.record import files
from train.record.record import Host, HostState


@pytest.fixture(scope="module")
def config():
    return load(["experiment=weak_scaling", "model=tiny", "nodes=2", "ranks_per_node=2"])


FILES = {"train/a.py": "1" * 12, "conf/b.yaml": "2" * 12}
PACKAGES = {"tensorflow": "2.18.1", "horovod": "0.28.1"}


def host(name: str, cores: int = 4) -> Host:
    return Host(name, "Xeon", cores, 2**34, "6.1", [])


def present(rank: int, name: str, cores: tuple[int, ...]) -> Present:
    return Present(rank, host(name), cores, None, None, "hash", files.source_digest(FILES), PACKAGES)


GOOD = [present(0, "a", (0, 1)), present(1, "a", (2, 3)), present(2, "b", (0, 1)), present(3, "b", (2, 3))]
NO_LAUNCHER = Expected()
DETAILS = [Details({"nodes": 2, "model": {"name": "tiny"}}, FILES, PACKAGES)] * 4


def test_ranks_on_their_hosts_and_cores_are_accepted(config):
    assert misplaced(GOOD, config, hosts=2) == []


def test_all_ranks_on_one_host(config):
    together = [replace(one, host=host("a"), cores=(one.rank,)) for one in GOOD]
    [problem] = misplaced(together, config, hosts=2)
    assert "4 ranks run on 1 host (a)" in problem
    assert "srun --nodes=2 --ntasks-per-node=2" in problem
    assert misplaced(together, config, hosts=1) == []  # where nodes share a machine that is as it should be


def test_ranks_spread_unevenly(config):
    moved = [*GOOD[:2], replace(GOOD[2], host=host("a"), cores=(4,)), GOOD[3]]
    [problem] = misplaced(moved, config, hosts=2)
    assert "a 3, b 1" in problem


def test_two_ranks_on_one_core(config):
    [problem] = misplaced([GOOD[0], replace(GOOD[1], cores=(1, 2)), *GOOD[2:]], config, hosts=2)
    assert problem.startswith("a: its 2 ranks need 4 cores and may use 3.")
    assert "--cpus-per-task=2" in problem


def test_two_ranks_on_one_gpu(config):
    gpus = [replace(one, gpu=gpu) for one, gpu in zip(GOOD, "0001", strict=True)]
    [problem] = misplaced(gpus, config, hosts=2)
    assert problem.startswith("a: 2 ranks share 1 GPU.")


def test_different_mpi_libraries(config):
    [problem] = misplaced([*GOOD[:3], replace(GOOD[3], mpi="Open MPI v4.1.4")], config, hosts=2)
    assert "None, Open MPI v4.1.4" in problem


def test_a_rank_group_without_horovod_needs_no_mpi_library(config):
    groups = (RankGroup({"distribution.backend": "none"}, 0, 2), RankGroup({}, 2, 2))
    config = changed(config, {"launch": LaunchPlan(rank_groups=groups)})
    with_mpi = [replace(one, mpi="Open MPI v4.1.4") for one in GOOD[2:]]
    assert misplaced([*GOOD[:2], *with_mpi], config, hosts=2) == []


def test_by_hand_a_slurm_step_says_how_many_hosts_there_must_be(config):
    assert hosts_of_step(config, {}) == 1
    assert hosts_of_step(config, {"SLURM_STEP_NUM_NODES": "4"}) == 2


def test_heterogeneous_hardware_is_noted():
    assert roll_call.remarks([host("a"), host("b")], load([])) == []
    [output] = roll_call.remarks([host("a"), host("b", cores=8), host("c", cores=8)], load([]))
    assert output.endswith("slowest host: a: 4 cores, Xeon, no GPU; b, c: 8 cores, Xeon, no GPU")


def test_what_256_hosts_share_is_reported_once():
    config = load(["experiment=weak_scaling", "model=tiny", "nodes=256", "ranks_per_node=2"])
    ranks = [present(2 * node + local, f"n{node}", (0, 1)) for node in range(256) for local in (0, 1)]
    [problem] = misplaced(ranks, config, hosts=256)
    assert problem.startswith("n[0-255]: its 2 ranks need 4 cores and may use 2.")


def test_a_precision_that_hosts_emulate_is_noted_for_each_of_them():
    def with_flags(name, *flags):
        state = HostState(None, None, None, None, None, None, None, list(flags), [], None)
        return replace(host(name), state=state)

    result = [with_flags("a", "avx512_bf16"), with_flags("b", "avx2"), host("c")]
    [output] = roll_call.remarks(result, load(["precision=bf16"]))
    assert "precision=bf16 is emulated on b: the processor has neither AVX512_BF16 nor AMX_BF16" in output
    assert roll_call.remarks(result, load([])) == []
    assert roll_call.remarks(result, load(["precision=bf16", "device=gpu"])) == []


def hold(config, everyone, details=DETAILS, expected=NO_LAUNCHER):
    """The roll call as rank 0 of these ranks holds it; also how often it gathered."""
    answers = iter([list(everyone), list(details)])
    gathered = []

    def gather(value, kind):
        assert isinstance(value, kind)
        gathered.append(value)
        return next(answers)

    try:
        return roll_call.hold(everyone[0], details[0], expected, config, gather), len(gathered)
    except ConfigError as error:
        return str(error), len(gathered)


def test_ranks_that_agree_are_asked_once(config):
    launcher = Expected(hosts=2, config_hash="hash", launcher=replace(DETAILS[0], packages={"tensorflow": "0"}))
    assert hold(config, GOOD) == (GOOD, 1)
    assert hold(config, GOOD, expected=launcher) == (GOOD, 1)


def test_another_configuration_is_named_by_host_key_and_values(config):
    other = [*GOOD[:3], replace(GOOD[3], config_hash="other")]
    details = [*DETAILS[:3], replace(DETAILS[3], config={"nodes": 2, "model": {"name": "vgg16"}})]
    problem, gathered = hold(config, other, details)
    assert gathered == 2
    assert problem == "rank 3 (b): another configuration than rank 0 (a): model.name=vgg16 instead of tiny"


def test_other_files_are_named_and_the_launcher_counts(config):
    changed = {**FILES, "train/a.py": "3" * 12}
    other = [*GOOD[:2], *(replace(one, source_digest=files.source_digest(changed)) for one in GOOD[2:])]
    problem, _ = hold(config, other, [*DETAILS[:2], *(replace(one, source=changed) for one in DETAILS[2:])])
    assert problem == (
        "rank 2 (b), rank 3 (b): other files than rank 0 (a): train/a.py. All hosts and images need the same tree"
    )

    expected = Expected(config_hash="hash", launcher=Details(DETAILS[0].config, changed))
    problem, _ = hold(config, GOOD, expected=expected)
    assert problem.startswith("rank 0 (a), rank 1 (a), rank 2 (b), rank 3 (b): other files than the launcher: train/")


def test_a_configuration_that_is_not_the_launchers_is_named(config):
    expected = Expected(config_hash="of the launcher", launcher=Details({"nodes": 3}, FILES))
    problem, _ = hold(config, GOOD[:1], DETAILS[:1], expected)
    assert problem == (
        "rank 0 (a): another configuration than the launcher: model.name=tiny instead of None, nodes=2 instead of 3"
    )


def test_other_packages_are_named_with_both_versions(config):
    other = [*GOOD[:3], replace(GOOD[3], packages={**PACKAGES, "tensorflow": "2.15.1"})]
    details = [*DETAILS[:3], replace(DETAILS[3], packages={**PACKAGES, "tensorflow": "2.15.1"})]
    problem, _ = hold(config, other, details)
    assert problem.startswith("rank 3 (b): other packages than rank 0 (a): tensorflow=2.15.1 instead of 2.18.1.")


def test_elastic_training_continues_on_fewer_hosts(config):
    elastic = changed(config, {"distribution.elastic": True, "measure.epochs": 1, "dataset.name": "digits"})
    assert hold(elastic, GOOD[:2], DETAILS[:2], Expected(hosts=2)) == (GOOD[:2], 1)
    problem, _ = hold(config, GOOD[:2], DETAILS[:2], Expected(hosts=2))
    assert "2 ranks run on 1 host (a)" in problem
