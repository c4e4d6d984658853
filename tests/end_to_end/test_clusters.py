"""The kit on simulated hosts, over ssh and under Slurm: commands as a user types them, and the records they write."""

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.helpers import GOLDEN, ROOT, mpi, shell
from tests.helpers.kit import LAUNCH, QUICK, needs_setup, records, wait_for
from tests.helpers.patched_ranks import SLEEPING, patch_ranks, rounds

pytestmark = pytest.mark.end_to_end


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
    over_ssh = ("launcher=ssh", "launcher.hosts=[n1,n2]", "distribution.controller=mpi", "experiment=timeline")
    done = cluster.on("n0", *LAUNCH, "--only=tiny", *arguments(results, *over_ssh))
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


def test_hosts_that_cannot_be_used_are_named_before_anything_starts(cluster, results):
    cluster.on("n2", "mv", f"{cluster.state}/ssh/authorized_keys", f"{cluster.state}/ssh/aside")
    try:
        done = cluster.on("n0", *LAUNCH, *arguments(results, "launcher=ssh", "launcher.hosts=[n1,n9]"))
    finally:
        cluster.on("n2", "mv", f"{cluster.state}/ssh/aside", f"{cluster.state}/ssh/authorized_keys")
    assert done.returncode == 2
    assert "n1: ssh: " in done.stdout
    assert "it refuses this user's key" in done.stdout
    assert "n9: ssh: " in done.stdout
    assert "no such host" in done.stdout
    assert records(results) == []


@pytest.fixture
def changed_file(cluster) -> Iterator[str]:
    """The name of a file of the code with different content on n2."""
    name = "train/loop/step.py"
    copy = cluster.folder / "step.py"
    copy.write_text(f"{(ROOT / name).read_text()}# changed\n")
    assert cluster.on("n2", "mount", "--bind", str(copy), str(ROOT / name)).returncode == 0
    yield name
    cluster.on("n2", "umount", str(ROOT / name))


def test_a_host_with_another_copy_of_the_kit_is_named_with_the_file(cluster, results, changed_file):
    overrides = arguments(results, "launcher=ssh", "launcher.hosts=[n1,n2]")
    variables = patch_ranks(results / "patch", SLEEPING)
    done = cluster.on("n0", *LAUNCH, "--only=tiny-nodes2", *overrides, variables=variables)
    assert done.returncode != 0, done.stdout
    (record,) = records(results)
    assert record.status == "failed"
    assert record.failure.reason.startswith(f"rank 1 (n2): other files than the launcher: {changed_file} differs.")
    assert not any("timed" in rank.phases_s for rank in record.ranks)


def test_what_a_host_lacks_is_reported_before_anything_starts(cluster, results):
    over_ssh = ("launcher=ssh", "launcher.hosts=[n1,n2]")
    done = cluster.on("n0", *LAUNCH, *arguments(Path("/tmp/own"), *over_ssh))
    assert done.returncode == 2
    assert "launcher.hosts: n[1-2]: does not see /tmp/own of n0" in done.stdout

    cluster.on("n0", "touch", "/tmp/kit.sif")  # each host has its own /tmp
    image = ("container=singularity", "container.image=/tmp/kit.sif")
    done = cluster.on("n0", *LAUNCH, *arguments(results, *over_ssh, *image))
    assert done.returncode == 2
    assert "n[1-2]: lacks the image /tmp/kit.sif" in done.stdout

    environment = Path(sys.prefix).resolve()
    assert cluster.on("n2", "mount", "-t", "tmpfs", "tmpfs", str(environment)).returncode == 0
    try:
        done = cluster.on("n0", *LAUNCH, *arguments(results, *over_ssh))
        assert done.returncode == 2
        assert f"n2: cannot run {sys.executable}" in done.stdout
    finally:
        cluster.on("n2", "umount", str(environment))
    assert records(results) == []


def launch_status(cluster, results: Path) -> list[str]:
    return cluster.on("n0", sys.executable, "-m", "train.launch.status", str(results)).stdout.splitlines()


def test_slurm_runs_all_points_in_one_job_and_submits_each_as_its_own_if_asked(cluster, results):
    together, apart = results / "together", results / "apart"
    slurm = ("launcher=slurm", "system=slurm")
    overrides = arguments(together, *slurm, "measure.design=rounds", "measure.budget_s=1")  # no second launch
    dry = cluster.on("n0", *LAUNCH, "--dry-run", *overrides)
    assert "#SBATCH --nodes=2" in dry.stdout
    assert "Jobs get nodes of partition main (sinfo): 4, with 1 cores or more each." in dry.stdout
    too_many = cluster.on("n0", *LAUNCH, *arguments(together, *slurm), "nodes=8")
    assert "nodes=8: a job gets at most 4, of partition main (sinfo)" in too_many.stdout
    assert not cluster.queue()

    with jobs_wait(cluster):
        submitted = cluster.on("n0", *LAUNCH, *overrides, variables=patch_ranks(results / "patch", rounds(2)))
        assert submitted.returncode == 0, submitted.stdout
        assert "1 runs on at most 2 nodes, about " in submitted.stdout
        twice = cluster.on("n0", *LAUNCH, *overrides)
        assert twice.returncode == 2
        assert "a job that will run this is in the queue" in twice.stdout
    wait_for(lambda: not cluster.queue())
    log = "".join(path.read_text() for path in together.glob("*/slurm/*.log"))
    [curve] = records(together)
    assert curve.status == "complete", log
    assert [rank.host for rank in curve.ranks] == ["n1", "n2"]
    assert [{window.arm for window in rank.windows} for rank in curve.ranks] == [{0, 1, 2}, {1, 2}]
    assert " images/s on 2 nodes; speedup " in log
    assert launch_status(cluster, together)[-1].split() == ["all", "1", "done"]
    assert "nothing to submit" in cluster.on("n0", *LAUNCH, *overrides).stdout

    with jobs_wait(cluster):
        split = cluster.on("n0", *LAUNCH, *arguments(apart, *slurm, "launcher.split=true"))
        assert "weak_scaling-tiny-nodes1: 1 runs on at most 1 nodes" in split.stdout
        assert "weak_scaling-tiny-nodes2: 1 runs on at most 2 nodes" in split.stdout
        *table, first, second = launch_status(cluster, apart)
        assert table[-1].split() == ["all", "2", "queued"]
        waits = "PENDING (PartitionDown)"
        assert [job.partition(": ")[2] for job in (first, second)] == [f"{waits}, 1 nodes", f"{waits}, 2 nodes"]
        cluster.on("n0", "scancel", first.split()[1].rstrip(":"), second.split()[1].rstrip(":"))


def test_a_job_ends_at_a_line_of_the_site_s_file_that_fails(cluster, results):
    lines = "system.setup=['export A=1','module load no-such-mpi/9.9']"
    overrides = arguments(results, "launcher=slurm", "system=slurm", "system.account=a b", lines)
    assert cluster.on("n0", *LAUNCH, *overrides).returncode == 0
    wait_for(lambda: not cluster.queue())
    log = "".join(path.read_text() for path in results.glob("*/slurm/*.log"))
    assert "system.setup: module load no-such-mpi/9.9: exit status 127; the job ends here" in log
    assert records(results) == []


def test_lsf_by_a_stand_in_for_bsub_measures_over_ssh_whatever_conf_is_on_a_host(cluster, results):
    conf = ROOT / "conf/measure/report.yaml"
    copy = cluster.folder / conf.name
    copy.write_text(f"{conf.read_text()}# changed\n")
    results.mkdir()
    path = f"{ROOT / 'tests/helpers/fake_lsf'}:{shell.ENVIRONMENT['PATH']}:{Path(sys.executable).parent}"
    variables = {"FAKE_LSF_HOSTS": "n1 n2", "FAKE_LSF_LOG": str(results / "job.log"), "PATH": path}
    variables |= patch_ranks(results / "patch", SLEEPING)
    lsf = ("launcher=lsf", "system.cores_per_node=1")
    assert cluster.on("n2", "mount", "--bind", str(copy), str(conf)).returncode == 0
    try:
        submitted = cluster.on("n0", *LAUNCH, "--only=tiny-nodes2", *arguments(results, *lsf), variables=variables)
        assert "submitted job 7" in submitted.stdout, submitted.stdout
        wait_for(lambda: records(results))
    finally:
        cluster.on("n2", "umount", str(conf))
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
