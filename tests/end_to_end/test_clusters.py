"""The kit on simulated hosts, over ssh and under Slurm: commands as a user types them, and the records they write."""

import shlex
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.helpers import GOLDEN, ROOT, mpi, shell
from tests.helpers.kit import LAUNCH, QUICK, needs_setup, records, wait_for
from tests.helpers.patched_ranks import SLEEPING, patch_ranks, rounds

pytestmark = pytest.mark.end_to_end

OVER_SSH = ("launcher=ssh", "launcher.hosts=[n1,n2]")


def arguments(results: Path, *overrides: str) -> list[str]:
    return ["experiment=weak_scaling", "nodes=2", *QUICK, f"results={results}", *overrides]


@contextmanager
def jobs_wait(cluster) -> Iterator[None]:
    """Keep all submitted jobs in Slurm's queue."""
    update = ("scontrol", "update", "partitionname=main")
    assert cluster.on("n0", *update, "state=down").returncode == 0
    try:
        yield
    finally:
        assert cluster.on("n0", *update, "state=up").returncode == 0


def test_over_ssh_ranks_meet_by_mpi_and_a_timeline_joins_their_clocks(cluster, results):
    if reason := mpi.missing():
        pytest.skip(reason)
    by_mpi = ("distribution.controller=mpi", "experiment=timeline")
    done = cluster.on("n0", *LAUNCH, "--only=tiny", *arguments(results, *OVER_SSH, *by_mpi))
    assert done.returncode == 0, done.stdout
    [record] = records(results)
    assert [(rank.rank, rank.node, rank.host) for rank in record.ranks] == [(0, 0, "n1"), (1, 1, "n2")]
    assert not record.cores_shared
    assert record.weights_differ is False
    assert record.environment.versions["horovod"] == "0.28.1"
    assert {"gloo", "mpi"} <= {*record.environment.horovod_built_with}
    assert record.environment.mpi
    assert [host.host for host in record.environment.hosts] == ["n1", "n2"]
    first, second = (rank.timeline for rank in record.ranks)  # simulated hosts have one clock
    assert (first.ahead_s, first.error_s) == (0.0, 0.0)
    assert second.error_s > 0
    assert abs(second.ahead_s) <= second.error_s + 1e-6
    assert {"horovod-timeline.json", "operations-0.json.gz", "operations-1.json.gz"} == record.attachments.keys()


@needs_setup
def test_advice_for_more_hosts_runs_on_them(cluster, results):
    """What `predict` advises over the golden records, with as many hosts as nodes."""
    texts = [path.read_text() for path in (GOLDEN / "printed").rglob("predict.*.txt")]
    advised = {line.strip() for text in texts for line in text.splitlines() if line.endswith(" HOSTS=...")}
    assert len(advised) == 2
    for command in advised:
        words = shlex.split(command.replace("...", ",".join(cluster.hosts)))
        done = cluster.on("n0", *words, f"RESULTS={results}", "DRY_RUN=1")
        assert done.returncode == 0, f"{command}\n{done.stdout}"
        assert "n1" in done.stdout


@contextmanager
def mounted(cluster, host: str, *arguments: str) -> Iterator[None]:
    """Mount what these arguments say on a host alone; the last one is its place."""
    assert cluster.on(host, "mount", *arguments).returncode == 0
    try:
        yield
    finally:
        cluster.on(host, "umount", arguments[-1])


def changed_file(cluster, host: str, name: str) -> AbstractContextManager[None]:
    """Let a host have another content of a file of the kit."""
    copy = cluster.folder / "changed"
    copy.write_text(f"{(ROOT / name).read_text()}# changed\n")
    return mounted(cluster, host, "--bind", str(copy), str(ROOT / name))


def test_a_host_with_another_copy_of_the_kit_is_named_with_the_file(cluster, results):
    overrides = arguments(results, *OVER_SSH)
    variables = patch_ranks(results / "patch", SLEEPING)
    with changed_file(cluster, "n2", "train/loop/step.py"):
        done = cluster.on("n0", *LAUNCH, "--only=tiny-nodes2", *overrides, variables=variables)
    assert done.returncode != 0, done.stdout
    (record,) = records(results)
    assert record.status == "failed"
    assert record.failure.reason.startswith("rank 1 (n2): other files than the launcher: train/loop/step.py differs.")
    assert not any("timed" in rank.phases_s for rank in record.ranks)


def test_what_a_host_lacks_is_reported_before_anything_starts(cluster, results):
    def refused(*overrides: str) -> str:
        done = cluster.on("n0", *LAUNCH, *arguments(results, *OVER_SSH, *overrides))
        assert done.returncode == 2
        return done.stdout

    with mounted(cluster, "n2", "--bind", "/dev/null", f"{cluster.state}/ssh/authorized_keys"):
        output = refused("launcher.hosts=[n2,n9]")
    assert "n2: ssh: " in output
    assert "it refuses this user's key" in output
    assert "n9: ssh: " in output
    assert "no such host" in output

    assert "launcher.hosts: n[1-2]: does not see /tmp/own of n0" in refused("results=/tmp/own")

    cluster.on("n0", "touch", "/tmp/kit.sif")  # each host has its own /tmp
    image = ("container=singularity", "container.image=/tmp/kit.sif")
    assert "n[1-2]: lacks the image /tmp/kit.sif" in refused(*image)

    with mounted(cluster, "n2", "-t", "tmpfs", "tmpfs", str(Path(sys.prefix).resolve())):
        assert f"n2: cannot run {sys.executable}" in refused()
    assert records(results) == []


def test_slurm_runs_all_points_in_one_job_which_is_submitted_once(cluster, results):
    slurm = ("launcher=slurm", "system=slurm", "measure.design=rounds", "measure.budget_s=1")  # no second launch
    overrides = arguments(results, *slurm)
    dry = cluster.on("n0", *LAUNCH, "--dry-run", *overrides)
    assert "#SBATCH --nodes=2" in dry.stdout
    assert "Jobs get nodes of partition main (sinfo): 4, with 1 cores or more each." in dry.stdout
    too_many = cluster.on("n0", *LAUNCH, *overrides, "nodes=8")
    assert "nodes=8: a job gets at most 4, of partition main (sinfo)" in too_many.stdout
    assert not cluster.queue()

    def status() -> list[str]:
        return cluster.on("n0", sys.executable, "-m", "train.launch.status", str(results)).stdout.splitlines()

    with jobs_wait(cluster):
        submitted = cluster.on("n0", *LAUNCH, *overrides, variables=patch_ranks(results / "patch", rounds(2)))
        assert submitted.returncode == 0, submitted.stdout
        assert "1 runs on at most 2 nodes, about " in submitted.stdout
        twice = cluster.on("n0", *LAUNCH, *overrides)
        assert twice.returncode == 2
        assert "a job that will run this is in the queue" in twice.stdout
        *_, total, job = status()
        assert total.split() == ["all", "1", "queued"]
        assert job.endswith(": PENDING (PartitionDown), 2 nodes")
    wait_for(lambda: not cluster.queue())
    log = "".join(path.read_text() for path in results.glob("*/slurm/*.log"))
    [curve] = records(results)
    assert curve.status == "complete", log
    assert [rank.host for rank in curve.ranks] == ["n1", "n2"]
    assert [{window.arm for window in rank.windows} for rank in curve.ranks] == [{0, 1, 2}, {1, 2}]
    assert " images/s on 2 nodes; speedup " in log
    assert status()[-1].split() == ["all", "1", "done"]
    assert "nothing to submit" in cluster.on("n0", *LAUNCH, *overrides).stdout


def test_lsf_by_a_stand_in_for_bsub_measures_over_ssh_whatever_conf_is_on_a_host(cluster, results):
    results.mkdir()
    path = f"{ROOT / 'tests/helpers/fake_lsf'}:{shell.ENVIRONMENT['PATH']}:{Path(sys.executable).parent}"
    variables = {"FAKE_LSF_HOSTS": "n1 n2", "FAKE_LSF_LOG": str(results / "job.log"), "PATH": path}
    variables |= patch_ranks(results / "patch", SLEEPING)
    lsf = ("launcher=lsf", "system.cores_per_node=1")
    with changed_file(cluster, "n2", "conf/measure/report.yaml"):
        submitted = cluster.on("n0", *LAUNCH, "--only=tiny-nodes2", *arguments(results, *lsf), variables=variables)
        assert "submitted job 7" in submitted.stdout, submitted.stdout
        wait_for(lambda: records(results))
    [record] = records(results)
    assert record.status == "complete", (results / "job.log").read_text()
    assert [rank.host for rank in record.ranks] == ["n1", "n2"]
    assert record.environment.variables["LSB_HOSTS"] == "n1 n2"
    [note] = [note for note in record.notes if "conf/" in note]
    assert note.startswith("n2: other files than the launcher: conf/measure/report.yaml. This run has the launcher's")


def test_srun_by_hand_needs_no_mpi(cluster, results):
    train = (sys.executable, "-m", "train", *arguments(results))
    done = cluster.on("n0", "srun", "-N2", "-n2", "-K1", *train)
    assert done.returncode == 0, done.stdout
    [record] = records(results)
    assert [rank.host for rank in record.ranks] == ["n1", "n2"]
    assert record.config["system"]["cores_per_node"] == 1
