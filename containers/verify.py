"""Build images and test what docs/images.md says of them; print a table, and fail if a test failed.

    python containers/verify.py                 all images
    python containers/verify.py cpu             only these variants

CONTAINER= names the engine, docker or podman. A test that needs something that this machine lacks (a GPU, singularity,
an engine) is skipped, with the reason.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from containers import build  # noqa: E402
from record.parts import read_part  # noqa: E402
from tests.helpers import simcluster  # noqa: E402

ALLREDUCE = "/opt/kit/containers/allreduce.py"
TRAIN = ["python", "-m", "train", "experiment=weak_scaling", "model=tiny", "nodes=2", "batch_per_rank=4"]
TRAIN += ["measure.timed_steps=2", "tracking=none", "threads_per_rank=1"]
ENDLESS = ["measure.timed_steps=1000000", "measure.design=launches", "measure.repeats=1"]
ONE_MINUTE = ["measure.repeats=1", "measure.budget_s=60"]  # of rounds
# Not the MPICH release of the images: it replaces a site's MVAPICH2, which is in no package registry.
OTHER_MPI = "mpich==4.2.3"
SUBNET = "10.213.77"
TIMEOUT_S = 900


class Skipped(Exception):
    """This machine lacks something that a check needs."""


@dataclass(frozen=True)
class Row:
    """One row of the table."""

    image: str
    check: str
    state: str  # passed | FAILED | skipped
    result: str
    seconds: float
    began: datetime


def output(command: Sequence[str], status: int | None = 0, **variables: str) -> str:
    """Return the output of a command. Raises AssertionError with the end of it if the exit status is another one."""
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
    )
    if status is not None and done.returncode != status:
        raise AssertionError(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout[-3000:]}")
    return done.stdout


def expect(text: str, *parts: str) -> None:
    """Raise AssertionError if a part is not in the text."""
    for part in parts:
        if part not in text:
            raise AssertionError(f"'{part}' is not in:\n{text[-3000:]}")


def lines_with(text: str, part: str) -> list[str]:
    """Return the lines that contain the part, without the prefix that a launcher adds."""
    return [line[line.index(part) :].strip() for line in text.splitlines() if part in line]


@functools.cache
def engine() -> str:
    """Return docker or podman: CONTAINER=, or whichever works. Raises Skipped."""
    return _usable(build.chosen_engine, ("docker", "podman"))


@functools.cache
def singularity() -> str:
    """Return singularity or apptainer, whichever works. Raises Skipped."""
    return _usable(build.first_that_works, ("singularity", "apptainer"))


def _usable(search: Callable[[Sequence[str], str], str], commands: Sequence[str]) -> str:
    try:
        return search(commands, "this check")
    except SystemExit as error:
        needed, *reasons = str(error).removeprefix("error: ").split("\n  ")
        raise Skipped(f"{needed} {', '.join(reasons)}") from None


def run_build(image_format: str, variant: str, *options: str, **variables: str) -> None:
    """Build an image, without a time limit, with the builder's output on the terminal. Raises AssertionError."""
    command = [sys.executable, "-m", "containers.build", image_format, variant, *options]
    status = subprocess.run(command, cwd=ROOT, env={**os.environ, **variables}, stdout=sys.stderr).returncode
    assert status == 0, f"{' '.join(command)}: exit status {status}; the builder's messages are above"


def run_in(variant: str, *options: str) -> list[str]:
    """Return the prefix of a command that runs in a container of this image."""
    return [engine(), "run", "--rm", *options, f"kit:{variant}"]


def contains_the_kit(variant: str) -> str:
    """The image prints its help, has a user that is not root, no compiler, and labels."""
    expect(output(run_in(variant)), f"image {variant}", "make weak-scaling NODES=2")
    user = output([*run_in(variant), "id", "-un"]).strip()
    compilers = output([*run_in(variant), "sh", "-c", "command -v g++ gcc cc nvcc make || true"]).strip()
    assert (user, compilers) == ("kit", "")
    labels = json.loads(output([engine(), "image", "inspect", f"kit:{variant}"]))[0]["Config"]["Labels"]
    missing = [
        name for name in ("revision", "created", "description") if not labels[f"org.opencontainers.image.{name}"]
    ]
    assert not missing, labels
    base = labels["org.opencontainers.image.base.digest"]
    return f"user {user}, no compiler, base {base[:19]}"


def built_with(variant: str) -> str:
    """Return the features that Horovod was compiled with, by its own report."""
    text = output([*run_in(variant), "horovodrun", "--check-build"])
    parts = ["TensorFlow", "MPI", "Gloo", *(["NCCL"] if variant == "cuda" else [])]
    expect(text, *(f"[X] {part}" for part in parts))
    return ", ".join(parts)


def by_hand_as_any_user(variant: str) -> str:
    """Train with the command that the image prints, as a user whom the image does not know."""
    user, image = 12345, f"kit:{variant}"
    digest = output([engine(), "image", "inspect", "--format", "{{.Id}}", image]).strip()
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        options = ["--user", f"{user}:{user}", "--volume", f"{folder}:/work", "--env", f"KIT_IMAGE={image}"]
        output([*run_in(variant, *options, "--env", f"KIT_IMAGE_DIGEST={digest}"), "horovodrun", "-np", "2", *TRAIN])
        [path] = Path(folder).rglob("record.json")
        environment, owner = json.loads(path.read_text())["environment"], path.stat().st_uid
    assert owner == user, owner
    assert environment["image"] == image, environment["image"]
    assert environment["image_digest"].removeprefix("sha256:") == digest.removeprefix("sha256:")
    return f"record of user {owner}, with image and digest"


@contextmanager
def two_containers(results: Path) -> Iterator[list[str]]:
    """Start containers h0 and h1 with separate addresses and sshd; yields the prefix of a command that runs in h0."""
    command, name = engine(), f"kit-verify-{uuid.uuid4().hex[:8]}"
    with tempfile.TemporaryDirectory() as folder:
        keys = Path(folder)
        output(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(keys / "id_ed25519")])
        shutil.copy(keys / "id_ed25519.pub", keys / "authorized_keys")
        (keys / "config").write_text("StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\n")
        serve = (
            "install -d -m 700 ~root/.ssh && cp /keys/* ~root/.ssh && chmod 600 ~root/.ssh/* && "
            "ssh-keygen -A && exec /usr/sbin/sshd -D"
        )
        hosts = [f"--add-host=h{i}:{SUBNET}.{i + 10}" for i in range(2)]
        output([command, "network", "create", "--subnet", f"{SUBNET}.0/24", name])
        try:
            for i in range(2):
                options = ["--detach", "--rm", "--name", f"{name}-{i}", "--hostname", f"h{i}", "--network", name]
                options += ["--ip", f"{SUBNET}.{i + 10}", *hosts, "--user", "0:0", "--volume", f"{keys}:/keys:ro"]
                options += ["--volume", f"{results}:/results", "--cap-add", "AUDIT_WRITE", "--cap-add", "SYS_CHROOT"]
                output([command, "run", *options, "kit:cpu", "sh", "-c", serve])
            inside = [command, "exec", f"{name}-0"]
            for i in range(2):
                wait_for(functools.partial(answers, [*inside, "ssh", f"h{i}", "true"]), f"sshd of h{i}", 60)
            yield inside
        finally:
            # The ranks run as the containers' root, which only Podman without root takes for the user.
            subprocess.run([command, "exec", f"{name}-0", "chown", "-R", "--reference=/results", "/results"])
            for i in range(2):
                subprocess.run([command, "rm", "--force", f"{name}-{i}"], capture_output=True)
            subprocess.run([command, "network", "rm", name], capture_output=True)


def answers(command: Sequence[str]) -> bool:
    """Return whether a command ends with status 0."""
    return subprocess.run(command, capture_output=True).returncode == 0


def across_two_containers(variant: str) -> str:
    """Allreduce with horovodrun and mpirun, then two training steps with each, over the containers' network."""
    mpirun = ["mpirun", "--allow-run-as-root", "-np", "2", "-H", "h0:1,h1:1", "-x", "PATH", "-x", "PYTHONPATH"]
    starters = {"gloo": ["horovodrun", "--gloo", "-np", "2", "-H", "h0:1,h1:1"], "mpi": mpirun}
    with tempfile.TemporaryDirectory() as folder:
        with two_containers(Path(folder)) as inside:
            for controller, starter in starters.items():
                text = output([*inside, *starter, "python", ALLREDUCE, controller])
                expect(text, "rank 0 of 2 on h0", "rank 1 of 2 on h1", "allreduce of 2 ranks: 3, as expected")
                results = f"results=/results/{controller}"
                output([*inside, *starter, *TRAIN, results, f"distribution.controller={controller}"])
        complete = records(Path(folder))
        assert len(complete) == 2, complete
        assert all([h["host"] for h in record["environment"]["hosts"]] == ["h0", "h1"] for record in complete), complete
    return "h0 and h1: horovodrun (Gloo) and mpirun (MPI): correct sum, 2 steps trained"


def records(folder: Path) -> list[dict]:
    """Return the records below a folder. Raises AssertionError if one is incomplete or not the user's."""
    complete = []
    for path in sorted(folder.rglob("record.json")):
        record = json.loads(path.read_text())
        assert record["status"] == "complete", path.read_text()[:2000]
        assert path.stat().st_uid == os.getuid(), f"{path} belongs to user {path.stat().st_uid}"
        complete.append(record)
    return complete


def measure(container: str, image: str, *settings: str) -> list[dict]:
    """Return the records of `make weak-scaling NODES=2 CONTAINER=...`: on the host, complete, owned by the user."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["make", "weak-scaling", "NODES=2", f"CONTAINER={container}", f"IMAGE={image}", "MODELS=tiny"]
        command += [f"RESULTS={folder}/results"]
        output([*command, f"ARGS=tracking=none {' '.join([*ONE_MINUTE, *settings])}"])
        complete = records(Path(folder))
    assert {record["config"]["nodes"] for record in complete} == {1, 2}, complete
    return complete


def experiment(container: str, image: str) -> str:
    """An experiment in a container: number of records, user and image digest."""
    complete = measure(container, image)
    digests = {record["environment"]["image_digest"] for record in complete}
    assert len(digests - {None}) == 1, digests
    return f"{len(complete)} complete records, of user {os.getuid()}, image {digests.pop()[:19]}"


def in_engine(variant: str) -> str:
    """An experiment in Docker or Podman."""
    return experiment(engine(), f"kit:{variant}")


def containers_of(image: str) -> list[str]:
    """Return the IDs of this image's containers, also of those that have ended and were not removed."""
    # By its ID: to Podman's filter, kit:cpu is not the name of localhost/kit:cpu.
    [image_id] = output([engine(), "image", "inspect", "--format", "{{.Id}}", image]).split()
    return output([engine(), "ps", "--all", "--quiet", "--filter", f"ancestor={image_id}"]).split()


def wait_for(condition: Callable[[], bool], event: str, within_s: float) -> float:
    """Return how long it took until the condition held, in s. Raises AssertionError if it does not hold in time."""
    begin = time.monotonic()
    while not condition():
        if time.monotonic() - begin > within_s:
            raise AssertionError(f"{event}: not within {within_s:.0f} s")
        time.sleep(0.2)
    return time.monotonic() - begin


def interrupt(launcher: subprocess.Popen) -> None:
    """Send what Ctrl-C on a terminal sends: SIGINT to the whole process group."""
    os.killpg(launcher.pid, signal.SIGINT)


def clients(launcher: subprocess.Popen) -> list[psutil.Process]:
    """Return the engine's commands that the launcher has started."""
    return [child for child in psutil.Process(launcher.pid).children(True) if child.name() == engine()]


def kill_client(launcher: subprocess.Popen) -> None:
    """Kill the engine's command that started the container, as the kernel may if memory is short."""
    [client] = clients(launcher)
    client.kill()


def kill_all(launcher: subprocess.Popen) -> None:
    """Kill the launcher and all that it started outside the container at once."""
    for process in [psutil.Process(launcher.pid), *psutil.Process(launcher.pid).children(True)]:
        process.kill()


INTERRUPTIONS: dict[str, Callable[[subprocess.Popen], None]] = {
    "Ctrl-C": interrupt,
    "kill -9": subprocess.Popen.kill,
    "kill -9 of the engine's command": kill_client,
    "kill -9 of both": kill_all,
}


@contextmanager
def endless(image: str) -> Iterator[subprocess.Popen]:
    """Yield the launcher of a run that makes timed steps in a container and would never end; remove its containers."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "train.launch", "--only", "tiny-nodes2", *TRAIN[3:], *ENDLESS]
        command += [f"container={engine()}", f"container.image={image}", f"results={folder}"]
        # As from a terminal: in a separate process group.
        launcher = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            wait_for(lambda: timing(Path(folder)), "the timed steps", TIMEOUT_S)
            yield launcher
        finally:
            launcher.kill()
            launcher.wait()
            if remaining := containers_of(image):
                subprocess.run([engine(), "rm", "--force", *remaining], capture_output=True)


def leaves_no_container(variant: str) -> str:
    """However an endless run is ended, its container is gone."""
    image, times_s = f"kit:{variant}", {}
    if existing := containers_of(image):
        raise Skipped(f"there are containers of {image}: {', '.join(existing)}")
    for name, end in INTERRUPTIONS.items():
        with endless(image) as launcher:
            assert containers_of(image)
            end(launcher)
            times_s[name] = wait_for(lambda: not containers_of(image), f"{name}: the end of the container", 60)
    return ", ".join(f"gone {seconds:.0f} s after {name}" for name, seconds in times_s.items())


def timing(results: Path) -> bool:
    """Return whether rank 0 of a run below this folder makes its timed steps."""
    return any(read_part(path).phase == "timed" for path in results.rglob("rank-0.*.jsonl"))


def sif(variant: str, *options: str, **variables: str) -> str:
    """Build the SIF, print its help, train two ranks with `singularity exec`, run an experiment."""
    command, image = singularity(), str(build.IMAGES / f"kit-{variant}.sif")
    begin = time.monotonic()
    run_build("sif", variant, *options, **variables)
    build_s, size = time.monotonic() - begin, Path(image).stat().st_size / 1e6
    expect(output([command, "run", image]), f"image {variant}", "make weak-scaling NODES=2")
    with tempfile.TemporaryDirectory() as folder:
        starter = ["horovodrun", "--gloo", "-np", "2"]
        output([command, "exec", "--bind", folder, image, *starter, *TRAIN, f"results={folder}"])
        assert len(records(Path(folder))) == 1
    return f"built in {build_s:.0f} s, {size:.0f} MB; trained; {experiment('singularity', image)}"


def from_definition(variant: str) -> str:
    """Check the SIF from singularity.def. With an engine, its copy of the base is used, so no registry is needed."""
    singularity()  # fail early, before the base is saved
    base = os.environ.get("BASE") or build.BASE
    if base.partition(":")[0] in build.BOOTSTRAPS:
        return sif(variant)
    with tempfile.TemporaryDirectory() as folder:
        archive = f"{folder}/base.tar"
        try:
            output([engine(), "save", "--output", archive, base])
        except Skipped:
            return sif(variant)
        return sif(variant, BASE=f"docker-archive:{archive}")


def from_oci(variant: str) -> str:
    """Check the SIF from the OCI image."""
    return sif(variant, "--from-oci")


def on_cluster(cluster: simcluster.Cluster, *command: str) -> None:
    """Run a command on the first host. Raises AssertionError with the end of its output if it fails."""
    done = cluster.on("n0", *command)
    assert done.returncode == 0, f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout[-3000:]}"


def submit(cluster: simcluster.Cluster, image: str, results: str, *settings: str) -> None:
    """Submit an experiment on one and on two nodes with `launcher=slurm`, and wait for the end of its job."""
    launch = [sys.executable, "-m", "train.launch", *TRAIN[3:], *ONE_MINUTE, f"results={results}"]
    in_container = ["launcher=slurm", "system=slurm", "container=singularity", f"container.image={image}"]
    on_cluster(cluster, *launch, *in_container, *settings)
    while cluster.on("n0", "squeue", "-h").stdout.strip():
        time.sleep(1)


def under_slurm(variant: str) -> str:
    """`srun ... singularity exec` by hand, with Gloo and with MPI, and launcher=slurm, on a simulated cluster."""
    command, image = singularity(), str(build.IMAGES / f"kit-{variant}.sif")
    if why := simcluster.missing():
        raise Skipped(why)
    if not Path(image).exists():
        raise Skipped(f"there is no {image}; make sif builds it")
    with tempfile.TemporaryDirectory() as folder, simcluster.Cluster(Path(folder), hosts=2) as cluster:
        srun = ["srun", "--nodes=2", "--ntasks-per-node=1", "--kill-on-bad-exit=1"]
        in_container = [command, "exec", "--bind", folder, image, *TRAIN]
        on_cluster(cluster, *srun, *in_container, f"results={folder}/gloo")
        started = {"gloo": {2}, "slurm": {1, 2}}
        if "pmix" in cluster.on("n0", "srun", "--mpi=list").stdout:
            by_mpi = [*in_container, f"results={folder}/mpi", "distribution.controller=mpi"]
            on_cluster(cluster, *srun, "--mpi=pmix", *by_mpi)
            started["mpi"] = {2}
        submit(cluster, image, f"{folder}/slurm")
        separate_server(cluster, image, f"{folder}/ps")
        complete = [check_hosts(records(Path(folder, part)), nodes) for part, nodes in started.items()]
    by_hand = f"Gloo, {'MPI by PMIx' if 'mpi' in started else 'not MPI: this Slurm has no PMIx'}"
    text = f"n1 and n2: srun by hand ({by_hand}) and launcher=slurm: {sum(map(len, complete))} complete records"
    return f"{text}; a parameter server alone on n2"


def separate_server(cluster: simcluster.Cluster, image: str, results: str) -> None:
    """Measure one worker, whose parameter server has a separate node. Raises AssertionError if it has not."""
    submit(cluster, image, results, "nodes=1", "distribution=ps", "distribution.servers_on=nodes")
    complete = records(Path(results))
    servers = [[server["host"] for server in record["servers"]] for record in complete]
    assert servers == [["n2"]], servers


def check_hosts(complete: list[dict], nodes: set[int]) -> list[dict]:
    """Return the records. Raises AssertionError unless they have these numbers of nodes, each of the hosts n1, n2."""
    hosts = [[host["host"] for host in record["environment"]["hosts"]] for record in complete]
    assert {record["config"]["nodes"] for record in complete} == nodes, hosts
    assert all(
        names == ["n1", "n2"][: record["config"]["nodes"]] for names, record in zip(hosts, complete, strict=True)
    ), hosts
    return complete


def another_mpi_under_slurm(variant: str) -> str:
    """The SIF with another MPI bound over its own; `srun --mpi=pmi2` starts its ranks on two hosts."""
    singularity()
    if why := simcluster.missing():
        raise Skipped(why)
    run_build("sif", variant, "--from-oci")
    image = str(build.IMAGES / f"kit-{variant}.sif")
    with tempfile.TemporaryDirectory() as folder, simcluster.Cluster(Path(folder), hosts=2) as cluster:
        install_other_mpi(f"{folder}/mpi")
        settings = ["system.mpi=pmi2", "distribution.controller=mpi", f"container.mpi_home={folder}/mpi"]
        submit(cluster, image, f"{folder}/results", *settings)
        complete = check_hosts(records(Path(folder)), {1, 2})
    loaded = {record["environment"]["mpi_library"] for record in complete}
    assert all(path.startswith(f"{folder}/mpi/lib/") for path in loaded), loaded
    size = Path(image).stat().st_size / 1e6
    return f"SIF {size:.0f} MB; {OTHER_MPI} bound; n1 and n2: {len(complete)} complete records"


def install_other_mpi(folder: str) -> None:
    """Install the MPI that replaces a site's, below a folder."""
    uv = shutil.which("uv") or f"{sys.prefix}/uv/bin/uv"
    output([uv, "pip", "install", "--quiet", "--no-deps", "--prefix", folder, "--python", sys.executable, OTHER_MPI])


def another_mpi(variant: str) -> str:
    """An MPI with the same ABI, bound over the image's own, is loaded; one with another soname is refused."""
    image, mpi = f"kit:{variant}", "distribution.controller=mpi"
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)  # else the image's user could not read it, and the loader would ignore it silently
        install_other_mpi(folder)
        bound = ["--volume", f"{folder}:{folder}:ro", "--env", f"LD_LIBRARY_PATH={folder}/lib"]
        allreduce = ["mpirun", "-np", "2", "python", ALLREDUCE, "mpi"]
        own_output = output([*run_in(variant), *allreduce])
        other_output = output([*run_in(variant, *bound), *allreduce])
        for text, library in ((own_output, "(/opt/venv/"), (other_output, f"({folder}/")):
            expect(text, library, "allreduce of 2 ranks: 3, as expected")
        loaded = {
            r["environment"]["mpi_library"] for r in measure(engine(), image, mpi, f"container.mpi_home={folder}")
        }
        assert all(path.startswith(f"{folder}/lib/") for path in loaded), loaded
        # The loader silently ignores an MPI with another soname: this mistake must be detected.
        wrong = Path(folder) / "wrong"
        (wrong / "lib").mkdir(parents=True)
        shutil.copy(next(Path(folder).glob("lib/libmpi.so.12*")), wrong / "lib/libmpi.so.40")
        try:
            measure(engine(), image, mpi, f"container.mpi_home={wrong}")
        except AssertionError as error:
            expect(str(error), f"container.mpi_home={wrong}: the MPI library that was loaded is")
        else:
            raise AssertionError(f"a library with another soname in {wrong} was not detected")
    before, after = (lines_with(text, "MPI library: ")[0].partition(" (")[0] for text in (own_output, other_output))
    return f"own {before}; bound in place of MVAPICH2 {after}: loaded, also by make weak-scaling; other soname refused"


def without_gpu(variant: str) -> str:
    """A clear error if there is no GPU."""
    if Path("/dev/nvidia0").exists():
        raise Skipped("this machine has a GPU")
    text = output([*run_in(variant), *TRAIN, "device=gpu", "nodes=1", "results=/tmp/results"], status=None)
    expect(text, "TensorFlow finds no GPU")
    return lines_with(text, "device=gpu: ")[0].partition(";")[0]


def on_gpu(variant: str) -> str:
    """An experiment on a GPU."""
    if not Path("/dev/nvidia0").exists():
        raise Skipped("no GPU on this machine: NCCL was compiled in, and has not run")
    return experiment(engine(), f"kit:{variant}")


CHECKS: dict[str, list[tuple[str, Callable[[str], str]]]] = {
    "cpu": [
        ("help, user, labels", contains_the_kit),
        ("Horovod's check", built_with),
        ("by hand, as any user", by_hand_as_any_user),
        ("two containers", across_two_containers),
        ("make weak-scaling", in_engine),
        ("Ctrl-C, kill -9", leaves_no_container),
        ("SIF from singularity.def", from_definition),
        ("SIF from the OCI image", from_oci),
        ("SIF under Slurm", under_slurm),
    ],
    "mvapich2": [
        ("help, user, labels", contains_the_kit),
        ("Horovod's check", built_with),
        ("another MPI bound over", another_mpi),
        ("the same under Slurm", another_mpi_under_slurm),
    ],
    "cuda": [
        ("help, user, labels", contains_the_kit),
        ("Horovod's check", built_with),
        ("without a GPU", without_gpu),
        ("on a GPU", on_gpu),
    ],
}


def verify(variant: str, name: str, check: Callable[[str], str]) -> Row:
    """Return the result of one check; prints the reason of a failure."""
    print(f"{variant}: {name} ...", file=sys.stderr, flush=True)
    began, begin = datetime.now(UTC), time.monotonic()
    try:
        state, result = "passed", check(variant)
    except Skipped as error:
        state, result = "skipped", str(error)
    except (AssertionError, OSError, subprocess.SubprocessError) as error:
        print(error, file=sys.stderr)
        state, result = "FAILED", (str(error).splitlines() or [type(error).__name__])[0][:100]
    seconds = time.monotonic() - begin
    print(f"{variant}: {name}: {state} after {seconds:.0f} s: {result}", file=sys.stderr, flush=True)
    return Row(variant, name, state, result, seconds, began)


def build_image(variant: str) -> str:
    """Build the OCI image; returns its size, and whether its base came from a registry."""
    run_build("image", variant)
    command, inputs = engine(), build.plan(variant, None)
    size = int(output([command, "image", "inspect", "--format", "{{.Size}}", f"kit:{variant}"])) / 1e6
    return f"{size:.0f} MB; on {', '.join(origin(command, image) for image in sorted({inputs.base, inputs.toolkit}))}"


def origin(command: str, image: str) -> str:
    """Return an image's name, marked if its comment says that it was imported on this machine."""
    comment = output([command, "image", "inspect", "--format", "{{.Comment}}", image])
    return f"{image} (a substitute, imported here)" if "import" in comment.lower() else image


def table(rows: Sequence[Row]) -> str:
    """Return the rows as a text table."""
    lines = [("image", "what", "", "began (UTC)", "s", "result")]
    lines += [
        (row.image, row.check, row.state, f"{row.began:%Y-%m-%d %H:%M:%S}", f"{row.seconds:.0f}", row.result)
        for row in rows
    ]
    widths = [max(len(line[i]) for line in lines) for i in range(5)]
    return "\n".join("  ".join([*map(str.ljust, line, widths), line[5]]).rstrip() for line in lines)


def rows_of(variant: str) -> Iterator[Row]:
    """Build an image and test it; yields a row as soon as each check ends."""
    build_row = verify(variant, "build", build_image)
    yield build_row
    if build_row.state == "passed":
        yield from (verify(variant, name, check) for name, check in CHECKS[variant])


def tested_versions() -> str:
    """Return the engine's version and the kit's commit."""
    inputs = build.plan("cpu", None)
    return f"{output([engine(), '--version']).strip()}; kit {inputs.version}, commit {inputs.commit}"


def main() -> int:
    """Build the images, test them, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("variants", nargs="*", choices=build.VARIANTS, help="default: all")
    arguments = parser.parse_args()
    build.chosen_engine(("docker", "podman"), "make test-images")  # without one, every check would be skipped
    rows: list[Row] = []
    try:
        for variant in arguments.variants or build.VARIANTS:
            for row in rows_of(variant):
                rows.append(row)  # one by one: the table shows all checks that ended before an interruption
    except KeyboardInterrupt:
        print("interrupted; these checks ended before:", file=sys.stderr)
        return 130
    finally:
        print(f"{tested_versions()}\n{table(rows)}")
    return int(any(row.state == "FAILED" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
