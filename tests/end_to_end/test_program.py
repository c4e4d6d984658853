"""Programs of a user: one that trains with Horovod and prints like its benchmark, and one of plain processes."""

import os
import re
import shlex
import sys
from pathlib import Path

import psutil
import pytest

from analysis.study import Study
from record import clock
from record.schema import load
from tests.helpers import ROOT, kit, podman
from tests.helpers.kit import (
    LAUNCH,
    analyse,
    command_lines,
    finish,
    make_command,
    needs_setup,
    records,
    run,
    start,
    succeed,
    wait_for,
)
from tests.helpers.needs import needs
from tests.helpers.targets import launch_command
from train.config import quoted
from train.config.program import ProgramConfig

pytestmark = pytest.mark.end_to_end

# It trains with Horovod, and prints like Horovod's examples/tensorflow2/tensorflow2_synthetic_benchmark.py.
HOROVOD = """
import sys, timeit
import tensorflow as tf
import horovod.tensorflow as hvd

hvd.init()
batch = int(sys.argv[1])
rate = batch * 2 / timeit.timeit(lambda: hvd.allreduce(tf.zeros([192, 10]), name="gradient"), number=2)
if hvd.rank() == 0:
    print("Model: small\\nBatch size: %d" % batch)
    print("Iter #0: %.1f img/sec per CPU\\nImg/sec per CPU: %.1f +-0.0" % (rate, rate))
    print("Total img/sec on %d CPU(s): %.1f +-0.0" % (hvd.size(), hvd.size() * rate))
"""
LAMMPS = """\
units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 4 0 4 0 4
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 1.44 87287
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0
fix 1 all nve
run 50
"""
# Of a matrix of 200 rows, without the comments that follow the numbers. Lines 11 and 12 are the grid of processes.
HPCC = "- - HPL.out 8 1 200 1 80 0 1 2 2 16.0 1 2 1 4 1 2 1 1 1 1 1 0 2 64 0 0 1 8 - 0 0 0 0 ".replace(" ", "\n")
# Without Horovod: parallel processes that compute.
PROCESSES = """
import multiprocessing, sys, time

def work(_):
    return sum(x * x for x in range(3_000_000))

if __name__ == "__main__":
    ranks, began = int(sys.argv[1]), time.time()
    with multiprocessing.Pool(ranks) as processes:
        processes.map(work, range(ranks))
    print(f"samples/s: {20 * ranks / (time.time() - began):.2f}")
"""
PAIR = "measure.repeats=2 measure.budget_s=1 tracking=none"  # two launches of each size
ONCE = "measure.repeats=1 measure.budget_s=1 tracking=none"


def program(folder, command, args, *variables):
    """Return the variables of `make scaling` on two nodes with this command."""
    return ["NODES=2", f"COMMAND={command}", f"RESULTS={folder / 'results'}", *variables, f"ARGS={args}"]


def script(folder, text):
    """Write a program in Python; return the command that runs it."""
    (folder / "my_train.py").write_text(text)
    return f"{sys.executable} {folder / 'my_train.py'}"


def launch(variables, status=0):
    """Run a launch of `make scaling`; assert that it ends with `status`, and return its output."""
    return finish(start(*launch_command("scaling", variables)), status)


@needs_setup
def test_plain_processes_from_the_command_to_the_page(tmp_path, monkeypatch):
    command, weak = script(tmp_path, PROCESSES) + " {ranks}", f"{PAIR} program.scaling=weak"
    mistyped = program(tmp_path, "./nosuch {ranks}", weak, "RATE=samples/s: {rate}")
    status, output = run(*make_command(tmp_path / "kit", "scaling", *mistyped))
    assert (status, [*tmp_path.glob("results/*")]) == (2, [])
    assert "no program ./nosuch on PATH or in the kit's .venv/bin" in output
    variables = program(tmp_path, command, weak, "RATE=samples/s: {rate}")
    output = succeed(*make_command(tmp_path / "kit", "scaling", *variables))
    launches = records(tmp_path / "results")
    assert sorted(record.order.position for record in launches) == [0, 1, 2, 3]
    for record in launches:
        assert record.printed.value > 0
        assert record.printed.text.startswith("samples/s: ")
        assert not {"model", "optimizer", "batch_per_rank"} & record.config.keys()  # the kit's, not the program's
        assert str(tmp_path / "my_train.py") in record.program.files
        assert 0 < record.program.cores.own_s <= record.program.cores.busy_s + 0.1
        assert len(record.ranks) == record.config["nodes"]
        assert sum(record.ranks[0].phases_s.values()) == pytest.approx(record.job_s, abs=0.01)
    assert "my_train" in output
    assert "nodes2 " in output  # the speedup
    assert "own-scaling-efficiency" in output
    monkeypatch.chdir(tmp_path / "kit")
    read = ("--experiment", "scaling", "--results", str(tmp_path / "results"))
    assert "my_train" in analyse("proposal", *read)
    # Two sizes are too few: the command that measures more is the same one.
    *_, advice = [line for line in analyse("predict", *read).splitlines() if line.startswith("    make")]
    assert shlex.split(advice)[:2] == ["make", "scaling"]
    assert {*shlex.split(advice)} >= {*variables[1:2], *variables[3:]}
    assert "NODES=2" not in advice
    output = launch(program(tmp_path, command, weak, "RATE=samples/s: ([0-9.]+)"))
    assert "4 launches were read again with another pattern, and not measured again" in output
    assert "4 of 4 runs are measured already" in output


def test_a_number_that_the_clock_contradicts_is_published_only_after_another_pattern_or_a_confirmation(tmp_path):
    """A time, which bash measures, is taken for a rate: it halves on two ranks, and so does the running time."""
    (tmp_path / "run.sh").write_text("TIMEFORMAT='cost %R'; time sleep $((2 / $1))\n")
    strong = f"{PAIR} program.scaling=strong"

    def launched(pattern, args=strong, status=0):
        return launch(program(tmp_path, f"bash {tmp_path}/run.sh {{ranks}}", args, pattern), status)

    output = launched("RATE=cost {rate}", status=2)
    assert re.search(r"nodes2 over nodes1: 0\.[45]\d*x by the number, [12][\d.]*x by the running time", output)
    assert re.search(r"nodes1: 2\.\d* in 'cost 2\.\d*'; it ran \S+ s, used 0\.\d of 1 cores", output)
    assert len(records(tmp_path / "results")) == 2  # one of each size
    summary = analyse("summary", "scaling", "--results", str(tmp_path / "results"), status=2)
    assert "the number that was read is not confirmed" in summary
    [code] = re.findall(r"program\.confirmed=(\w+)", output)
    launched("RATE=cost {rate}", f"{strong} program.confirmed={code}")
    assert len(records(tmp_path / "results")) == 6  # the two were read again, and two more were measured
    output = launched("TIME=cost {time}", f"{strong} program.unit=s")
    assert "4 launches were read again with another pattern, and not measured again" in output
    printed = [record.printed for record in records(tmp_path / "results")]
    assert all(number.value < 1 for number in printed if number.found_by == "TIME")  # 1 over 1 or 2 s


@pytest.mark.on_change_of("train/program/", "train/config/printed.py", "train/launch/start/")
def test_a_benchmark_of_horovod_needs_no_rate(tmp_path):
    command = f"horovodrun -np {{ranks}} {script(tmp_path, HOROVOD)} {{batch_per_rank}}"
    launch(program(tmp_path, command, f"{ONCE} batch_per_rank=8", "ONLY=nodes2"))
    (record,) = records(tmp_path / "results")
    assert len(record.ranks) == 2
    assert record.printed.found_by == "a log of Horovod's synthetic benchmark"
    assert "Total img/sec on 2 CPU(s)" in next((tmp_path / "results").rglob("nodes2/*/r0/rank-0.log")).read_text()


@pytest.mark.parametrize(
    ("name", "file", "text", "printed"),
    [
        pytest.param("lmp", "in.lj", LAMMPS, r"([\d.]+) timesteps/s", marks=needs("lmp", "mpirun")),
        pytest.param("hpcc", "hpccinf.txt", HPCC, r"^HPL_Tflops=(\S+)", marks=needs("hpcc", "mpirun")),
    ],
    ids=["lammps", "hpcc"],
)
def test_a_program_of_the_documentation_is_recorded_with_the_rate_that_it_prints(tmp_path, name, file, text, printed):
    page = (ROOT / "docs/program.md").read_text()
    [settings] = [block for block in re.findall(r"^```\n# \w+\.yaml\n(.*?)```$", page, re.M | re.S) if name in block]
    (tmp_path / "mine.yaml").write_text(settings)
    (tmp_path / file).write_text(text)
    variables = ["NODES=2", f"PROGRAM={tmp_path / 'mine.yaml'}", f"RESULTS={tmp_path / 'results'}", f"ARGS={ONCE}"]
    status, output = run(*launch_command("scaling", variables))
    # It is so short that its running times may not confirm the number: tests/record/test_clock.py.
    assert status == (2 if "the number that was read is not confirmed" in output else 0), output
    paths = [*(tmp_path / "results").rglob("record.json")]
    for path in paths:
        record = load(path)
        assert record.config["program"]["name"] == name
        [rate] = re.findall(printed, path.with_name("rank-0.log").read_text(), re.M)
        assert record.printed.value == float(rate)
    assert sorted(len(load(path).ranks) for path in paths) == [1, 2]


def test_where_no_rate_is_found_the_output_is_shown_and_the_number_that_changes_with_the_running_times(tmp_path):
    text = (
        "import sys, time\nranks = int(sys.argv[1])\ntime.sleep(2 / ranks)\n"
        "print('rate limit: 50 img/s\\nqueue: %d img/s\\ndone: %.1f img/s' % (40 / ranks, {1: 9.5, 2: 17}[ranks]))\n"
    )
    strong = f"{ONCE} program.scaling=strong"
    variables = program(tmp_path, f"{script(tmp_path, text)} {{ranks}}", strong, "RATE=img: {rate}")
    output = launch(variables, status=1)
    assert output.count("no rate was printed") == output.count("| rate limit: 50 img/s") == 2
    assert [line for line in output.splitlines() if line.startswith("It changes")] == [
        "It changes with the running times: RATE='done: {rate}'"
    ]
    assert [record.status for record in records(tmp_path / "results")] == ["failed", "failed"]  # one of each size


def test_a_program_that_never_ends_is_ended_at_a_line_and_has_its_file(tmp_path):
    endless = tmp_path / "endless.py"
    endless.write_text("n = 0\nwhile True:\n    print('step', n, 'speed 1,234.5 cells/s')\n    n += 1\n")  # no flush
    (tmp_path / "mine.yaml").write_text(
        f"command: {sys.executable} {{here}}/endless.py {{ranks}}\nrate: 'step 3 speed {{rate}}'\nscaling: strong\n"
        "until: ^step 9\nversion: echo endless 1.0\n"
    )
    variables = ["NODES=1", f"PROGRAM={tmp_path / 'mine.yaml'}", f"RESULTS={tmp_path / 'results'}", f"ARGS={ONCE}"]
    launch(variables)
    (record,) = records(tmp_path / "results")
    assert (record.printed.value, record.printed.unit, record.program.version) == (1234.5, "cells/s", "endless 1.0")
    assert not command_lines(str(endless))


def test_a_number_in_a_file_of_a_program_that_exits_with_3_and_takes_all_cores_is_read(tmp_path):
    (tmp_path / "run.sh").write_text(
        'echo "rate: $OMP_NUM_THREADS.5 of $1 cores, by $(command -v horovodrun)" > out; exit 3'
    )
    command, strong = f"bash {tmp_path}/run.sh {{cores}}", f"{ONCE} program.scaling=strong"
    output = launch(program(tmp_path / "unset", command, strong, "RATE={rate}"), status=1)
    assert "the command ended with exit status 3; if that is a success: ARGS=program.exit_status=3" in output
    assert "It changes with the running times" not in output
    keys = f"{strong} program.file=out program.exit_status=3"
    variables = program(tmp_path, command, keys, "RATE=rate: {rate}")
    run(*launch_command("scaling", variables), variables={"PATH": "/usr/bin:/bin"})
    lines = sorted(record.printed.text for record in records(tmp_path / "results") if record.printed)
    cores = len(os.sched_getaffinity(0)) // 2
    horovodrun = ROOT / ".venv/bin/horovodrun"
    assert lines == [f"rate: {n}.5 of {n} cores, by {horovodrun}" for n in (cores, 2 * cores)]


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    """The variables of a Podman whose image has nothing of the kit; skips if it cannot run."""
    if reason := podman.missing():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("podman")
    (folder / "nothing").mkdir()
    return podman.make_image(folder, folder / "nothing", {"PATH": "/usr/bin:/bin"})


def confirmed(command, rate):
    """Return the setting that confirms a number that is the same for each rank, of weak scaling."""
    settings = ProgramConfig(name="", command=command, rate=rate, scaling="weak")
    return f"program.confirmed={clock.confirmation(vars(settings), 'RATE')}"


def command_in_container(folder, code):
    """Return the command of a launch of Python code in the container."""
    command, rate = shlex.join([str(Path(sys.executable).resolve()), "-c", code, "{ranks}"]), ".*rate: {rate}"
    container = ("CONTAINER=podman", f"IMAGE={podman.IMAGE}", f"RATE={rate}")
    args = f"{ONCE} program.scaling=weak {confirmed(command, rate)}"
    return launch_command("scaling", program(folder, command, args, *container))


def test_in_a_container_runs_the_program_alone_on_the_cores_of_its_nodes(settings, tmp_path):
    values = "len(os.sched_getaffinity(0)), 'cores;', os.environ['OMP_NUM_THREADS'], 'rate:', sys.argv[1]"
    succeed(*command_in_container(tmp_path, f"import os, sys; print({values})"), variables=settings)
    first, second = sorted(records(tmp_path / "results"), key=lambda record: len(record.ranks))
    cores = len(os.sched_getaffinity(0)) // 2
    assert first.printed.text == f"{cores} cores; {cores} rate: 1"
    assert second.printed.text == f"{2 * cores} cores; {cores} rate: 2"
    assert {first.environment.image, second.environment.image} == {podman.IMAGE}
    assert first.environment.image_digest.startswith("sha256:")


@pytest.mark.parametrize("with_client", [False, True])
def test_a_program_in_a_container_that_ignores_signals_ends_with_its_launcher(settings, tmp_path, with_client):
    mark = f"sleeper-{os.getpid()}"  # the first process of a container ignores SIGTERM
    code = f"import time; print('{mark}', flush=True); time.sleep(900)"
    launcher = start(*command_in_container(tmp_path, code), variables=settings)
    wait_for(lambda: any(mark in log.read_text() for log in tmp_path.rglob("rank-0.log")))
    for process in psutil.Process(launcher.pid).children(recursive=True) if with_client else ():
        process.kill()
    launcher.kill()
    launcher.communicate(timeout=kit.TIMEOUT_S)
    wait_for(lambda: not command_lines(mark))


def over_hosts(results, hosts, *overrides):
    """Return the command of a launch whose program gets the names of its hosts by `hosts`, and prints their number."""
    command = shlex.join(["bash", "-c", f"echo hosts: $({hosts} | sort -u | wc -l)"])
    program = (f"program.command={quoted(command)}", "program.rate='hosts: {rate}'", "program.scaling=weak")
    short = ("measure.repeats=1", "measure.budget_s=0.1", "tracking=none", confirmed(command, "hosts: {rate}"))
    return [*LAUNCH, "experiment=scaling", "nodes=2", *program, *short, f"results={results}", *overrides]


def check_hosts(results, output):
    """Assert that the program has reached one host in the first launch and both in the second."""
    first, second = sorted(records(results), key=lambda record: record.config["nodes"])
    assert (first.status, second.status) == ("complete", "complete"), output
    assert (first.printed.value, second.printed.value) == (1, 2)
    assert [rank.host for rank in second.ranks] == ["n1", "n2"]
    assert set(Study(results).local["ranks"]) == {1, 2}


def test_over_ssh_it_starts_here_and_reaches_the_hosts_itself(cluster, results):
    hosts = "for host in $(echo {host_names} | tr , ' '); do ssh -o BatchMode=yes $host hostname; done"
    done = cluster.on("n0", *over_hosts(results, hosts, "launcher=ssh", "launcher.hosts=[n1,n2]"))
    assert done.returncode == 0, done.stdout
    check_hosts(results, done.stdout)


def test_under_slurm_it_is_started_on_the_first_host_of_the_allocation(cluster, results):
    hosts = "srun --nodes={nodes} --ntasks={ranks} --nodelist={host_names} hostname"
    submitted = cluster.on("n0", *over_hosts(results, hosts, "launcher=slurm", "system=slurm"))
    assert submitted.returncode == 0, submitted.stdout
    wait_for(lambda: not cluster.queue())
    check_hosts(results, "".join(path.read_text() for path in results.glob("*/slurm/*.log")))
