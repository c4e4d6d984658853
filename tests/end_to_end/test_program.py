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

# Like Horovod's examples/tensorflow2/tensorflow2_synthetic_benchmark.py: same steps, same output, a smaller model.
HOROVOD = """
import argparse, timeit
import numpy as np
import tensorflow as tf
import horovod.tensorflow as hvd

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=32)
args = parser.parse_args()
hvd.init()
model = tf.keras.Sequential([tf.keras.layers.Flatten(), tf.keras.layers.Dense(10)])
opt = tf.optimizers.SGD(0.01)
data = tf.random.uniform([args.batch_size, 8, 8, 3])
target = tf.random.uniform([args.batch_size, 1], minval=0, maxval=9, dtype=tf.int64)

def benchmark_step(first_batch):
    with tf.GradientTape() as tape:
        loss = tf.losses.SparseCategoricalCrossentropy(from_logits=True)(target, model(data, training=True))
    gradients = hvd.DistributedGradientTape(tape).gradient(loss, model.trainable_variables)
    opt.apply_gradients(zip(gradients, model.trainable_variables))
    if first_batch:
        hvd.broadcast_variables(model.variables, root_rank=0)

def log(s):
    if hvd.rank() == 0:
        print(s, flush=True)

log("Model: small"); log("Batch size: %d" % args.batch_size)
benchmark_step(True)
img_secs = []
for x in range(3):
    time = timeit.timeit(lambda: benchmark_step(False), number=2)
    img_secs.append(args.batch_size * 2 / time)
    log("Iter #%d: %.1f img/sec per CPU" % (x, img_secs[-1]))
mean, conf = np.mean(img_secs), 1.96 * np.std(img_secs)
log("Img/sec per CPU: %.1f +-%.1f" % (mean, conf))
log("Total img/sec on %d CPU(s): %.1f +-%.1f" % (hvd.size(), hvd.size() * mean, hvd.size() * conf))
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
# Without Horovod: parallel processes that multiply matrices.
PROCESSES = """
import multiprocessing, sys, time

def work():
    row = [1.0] * 60
    for _ in range(20):
        [[sum(x * y for x, y in zip(row, row)) for _ in row] for _ in row]

if __name__ == "__main__":
    began = time.time()
    processes = [multiprocessing.Process(target=work) for _ in range(int(sys.argv[1]))]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    print(f"samples/s: {20 * len(processes) / (time.time() - began):.2f}")
"""


def make_variables(folder, script, command, *variables):
    """Write the script of a program; return the variables of `make scaling` with it."""
    path = folder / "my_train.py"
    path.write_text(script)
    command = command.format(python=sys.executable, script=path)
    return ["NODES=2", f"COMMAND={command}", f"RESULTS={folder / 'results'}", *variables]


def launch(variables):
    """Run a launch of `make scaling`; return its exit status and its output. Horovod does not support Keras 3."""
    return run(*launch_command("scaling", variables), variables={"TF_USE_LEGACY_KERAS": "1"})


@needs_setup
def test_plain_processes_from_the_command_to_the_page(tmp_path, monkeypatch):
    rate, weak = "RATE=samples/s: {rate}", "tracking=none program.scaling=weak"
    args = f"ARGS=measure.repeats=2 measure.budget_s=1 {weak}"
    variables = make_variables(tmp_path, PROCESSES, "{python} {script} {{ranks}}", rate, args)
    output = succeed(*make_command(tmp_path / "kit", "scaling", *variables))
    launches = records(tmp_path / "results")
    assert sorted(record.order.position for record in launches) == [0, 1, 2, 3]  # two launches of each size
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
    assert {*shlex.split(advice)} >= {variables[1], *variables[3:]}
    assert "NODES=2" not in advice
    status, output = launch([*variables[:-2], "RATE=samples/s: ([0-9.]+)", args])
    assert status == 0, output
    assert "4 launches were read again with another pattern, and not measured again" in output
    assert "4 of 4 runs are measured already" in output


@needs_setup
def test_a_number_that_the_clock_contradicts_is_published_only_after_another_pattern_or_a_confirmation(tmp_path):
    """A time, which bash measures, is taken for a rate: it halves on two ranks, and so does the running time."""
    (tmp_path / "run.sh").write_text("TIMEFORMAT='cost %R'; time sleep 0.$((8 / $1))\n")
    variables = ["NODES=2", f"COMMAND=bash {tmp_path}/run.sh {{ranks}}", f"RESULTS={tmp_path / 'results'}"]
    args = "ARGS=measure.repeats=2 measure.budget_s=1 tracking=none program.scaling=strong"
    status, output = run(*make_command(tmp_path / "kit", "scaling", *variables, "RATE=cost {rate}", args))
    assert status == 2, output
    assert re.search(r"nodes2 over nodes1: 0\.[45]\d*x by the number, 1\.\d+x by the running time", output)
    assert re.search(r"nodes1: 0\.8\d* in 'cost 0\.8\d*'; it ran \S+ s, used 0\.\d of 1 cores", output)
    assert len(records(tmp_path / "results")) == 2  # one of each size
    assert "own-scaling" not in output
    status, summary = run(*make_command(tmp_path / "kit", "summary", "EXPERIMENT=scaling", variables[-1]))
    assert status != 0
    assert "the number that was read is not confirmed" in summary
    [code] = re.findall(r"program\.confirmed=(\w+)", output)
    succeed(
        *make_command(tmp_path / "kit", "scaling", *variables, "RATE=cost {rate}", f"{args} program.confirmed={code}")
    )
    assert len(records(tmp_path / "results")) == 6  # the two were read again, and two more were measured
    time = ("TIME=cost {time}", f"{args} program.unit=s")
    output = succeed(*make_command(tmp_path / "kit", "scaling", *variables, *time))
    assert "4 launches were read again with another pattern, and not measured again" in output
    assert all(
        record.printed.value > 1 for record in records(tmp_path / "results") if record.printed.found_by == "TIME"
    )
    assert "own-scaling-efficiency" in output


def test_a_benchmark_of_horovod_needs_no_rate(tmp_path):
    command = "horovodrun -np {{ranks}} {python} {script} --batch-size {{batch_per_rank}}"
    args = "ARGS=measure.repeats=1 measure.budget_s=1 batch_per_rank=8 tracking=none"
    status, output = launch(make_variables(tmp_path, HOROVOD, command, args, "ONLY=nodes2"))
    assert status == 0, output
    (record,) = records(tmp_path / "results")
    assert len(record.ranks) == 2
    assert record.printed.found_by == "a log of Horovod's synthetic benchmark"
    assert "Total img/sec on 2 CPU(s)" in next((tmp_path / "results").rglob("nodes2/*/r0/rank-0.log")).read_text()


@pytest.mark.parametrize(
    ("program", "file", "text", "printed"),
    [
        pytest.param("lmp", "in.lj", LAMMPS, r"([\d.]+) timesteps/s", marks=needs("lmp", "mpirun")),
        pytest.param("hpcc", "hpccinf.txt", HPCC, r"^HPL_Tflops=(\S+)", marks=needs("hpcc", "mpirun")),
    ],
    ids=["lammps", "hpcc"],
)
def test_a_program_of_the_documentation_is_recorded_with_the_rate_that_it_prints(
    tmp_path, program, file, text, printed
):
    page = (ROOT / "docs/program.md").read_text()
    [settings] = [block for block in re.findall(r"^```\n# \w+\.yaml\n(.*?)```$", page, re.M | re.S) if program in block]
    (tmp_path / "mine.yaml").write_text(settings)
    (tmp_path / file).write_text(text)
    args = "ARGS=measure.repeats=1 measure.budget_s=1 tracking=none"
    variables = ["NODES=2", f"PROGRAM={tmp_path / 'mine.yaml'}", f"RESULTS={tmp_path / 'results'}", args]
    status, output = launch(variables)
    paths = {len(load(path).ranks): path for path in (tmp_path / "results").rglob("record.json")}
    rates, times = [], []
    for ranks in (1, 2):
        record = load(paths[ranks])
        assert record.config["program"]["name"] == program
        [rate] = re.findall(printed, paths[ranks].with_name("rank-0.log").read_text(), re.M)
        assert record.printed.value == float(rate)
        rates.append(record.printed.value)
        times.append(record.program.cores.wall_s)
    # So short that the running times may not confirm its number: of one problem, more than twofold, or opposite.
    by_number, by_clock = rates[1] / rates[0], times[0] / times[1]
    opposite = min(by_number, by_clock) <= 1 / 1.1 and max(by_number, by_clock) >= 1.1
    doubted = opposite or not 0.5 <= by_number / by_clock <= 2
    assert (status, "the number that was read is not confirmed" in output) == (2 if doubted else 0, doubted), output


def test_a_launch_that_fails_shows_its_output(tmp_path):
    script = "import sys; print('some output'); sys.exit(3 if sys.argv[1] == '1' else 0)"
    rate, args = "RATE=rate: {rate}", "ARGS=measure.repeats=2 tracking=none program.scaling=strong"
    status, output = launch(make_variables(tmp_path, script, "{python} {script} {{ranks}}", rate, args))
    assert status != 0
    assert "the command ended with exit status 3" in output
    assert "no rate was printed" in output
    assert output.count("| some output") == 2
    assert "It changes with the running times" not in output
    assert [record.status for record in records(tmp_path / "results")] == ["failed", "failed"]  # one of each size


def test_of_several_numbers_the_one_that_changes_with_the_running_times_is_proposed_again(tmp_path):
    script = (
        "import sys, time\nranks = int(sys.argv[1])\ntime.sleep(2 / ranks)\n"
        "print('rate limit: 50 img/s\\nqueue: %d img/s\\ndone: %.1f img/s' % (40 / ranks, {1: 9.5, 2: 17}[ranks]))\n"
    )
    args = "ARGS=measure.repeats=1 measure.budget_s=1 tracking=none program.scaling=strong"
    status, output = launch(make_variables(tmp_path, script, "{python} {script} {{ranks}}", "RATE=img: {rate}", args))
    assert status != 0
    assert [line for line in output.splitlines() if line.startswith("It changes")] == [
        "It changes with the running times: RATE='done: {rate}'"
    ]


def test_a_program_that_never_ends_is_ended_at_a_line_and_has_its_file(tmp_path):
    script = tmp_path / "endless.py"
    script.write_text("n = 0\nwhile True:\n    print('step', n, 'speed 1,234.5 cells/s')\n    n += 1\n")  # no flush
    (tmp_path / "mine.yaml").write_text(
        f"command: {sys.executable} {{here}}/endless.py {{ranks}}\nrate: 'step 3 speed {{rate}}'\nscaling: strong\n"
        "until: ^step 9\nversion: echo endless 1.0\n"
    )
    args = "ARGS=measure.repeats=1 measure.budget_s=1 tracking=none"
    variables = ["NODES=1", f"PROGRAM={tmp_path / 'mine.yaml'}", f"RESULTS={tmp_path / 'results'}", args]
    status, output = launch(variables)
    assert status == 0, output
    (record,) = records(tmp_path / "results")
    assert (record.printed.value, record.printed.unit, record.program.version) == (1234.5, "cells/s", "endless 1.0")
    assert not command_lines(str(script))


def test_a_number_in_a_file_of_a_program_that_exits_with_3_and_takes_all_cores_is_read(tmp_path):
    (tmp_path / "run.sh").write_text(
        'echo "rate: $OMP_NUM_THREADS.5 of $1 cores, by $(command -v horovodrun)" > out; exit 3'
    )
    keys = "program.file=out program.exit_status=3 program.scaling=strong"
    args = f"ARGS=measure.repeats=1 measure.budget_s=1 tracking=none {keys}"
    variables = ["NODES=2", f"COMMAND=bash {tmp_path}/run.sh {{cores}}", f"RESULTS={tmp_path / 'results'}"]
    run(*launch_command("scaling", [*variables, "RATE=rate: {rate}", args]), variables={"PATH": "/usr/bin:/bin"})
    lines = sorted(record.printed.text for record in records(tmp_path / "results") if record.printed)
    cores = len(os.sched_getaffinity(0)) // 2
    horovodrun = ROOT / ".venv/bin/horovodrun"
    assert lines == [f"rate: {n}.5 of {n} cores, by {horovodrun}" for n in (cores, 2 * cores)]
    without = args.replace(keys, "program.scaling=strong")
    output = run(*launch_command("scaling", [*variables[:2], f"RESULTS={tmp_path / 'b'}", "RATE={rate}", without]))[1]
    assert "exit status 3; if that is a success: ARGS=program.exit_status=3" in output


def test_a_mistyped_command_stops_before_anything_is_measured(tmp_path):
    variables = make_variables(tmp_path, "", "no_such_program {{ranks}}", "ARGS=program.scaling=weak tracking=none")
    status, output = launch(variables)
    assert status == 2
    assert "no program no_such_program on PATH" in output
    assert not records(tmp_path / "results")


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


def command_in_container(folder, code, args):
    """Return the command of a launch of Python code in the container."""
    command = shlex.join([str(Path(sys.executable).resolve()), "-c", code, "{ranks}"])
    container = ("CONTAINER=podman", f"IMAGE={podman.IMAGE}", "RATE=.*rate: {rate}")
    args += f" {confirmed(command, '.*rate: {rate}')}"
    return launch_command("scaling", ["NODES=2", f"COMMAND={command}", f"RESULTS={folder}", args, *container])


def test_in_a_container_runs_the_program_alone_on_the_cores_of_its_nodes(settings, tmp_path):
    values = "len(os.sched_getaffinity(0)), 'cores;', os.environ['OMP_NUM_THREADS'], 'rate:', sys.argv[1]"
    code = f"import os, sys; print({values})"
    args = "ARGS=measure.repeats=1 measure.budget_s=1 tracking=none program.scaling=weak"
    succeed(*command_in_container(tmp_path / "results", code, args), variables=settings)
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
    launcher = start(
        *command_in_container(tmp_path / "results", code, "ARGS=tracking=none program.scaling=weak"), variables=settings
    )
    wait_for(lambda: any(mark in log.read_text() for log in (tmp_path / "results").rglob("rank-0.log")))
    for process in psutil.Process(launcher.pid).children(recursive=True) if with_client else ():
        process.kill()
    launcher.kill()
    launcher.communicate(timeout=kit.TIMEOUT_S)
    wait_for(lambda: not command_lines(mark))


def over_hosts(results, start, *overrides):
    """Return the arguments of a launch whose program gets the names of its hosts, and prints their number."""
    command = shlex.join(["bash", "-c", f"echo hosts: $({start} | sort -u | wc -l)"])
    return [
        confirmed(command, "hosts: {rate}"),
        "experiment=scaling", "nodes=2", f"program.command={quoted(command)}", "program.rate='hosts: {rate}'",
        "program.scaling=weak", "measure.repeats=1", "measure.budget_s=0.1", "tracking=none", f"results={results}",
        *overrides,
    ]  # fmt: skip


def check_hosts(results, output):
    """Assert that the program has reached one host in the first launch and both in the second."""
    first, second = sorted(records(results), key=lambda record: record.config["nodes"])
    assert (first.status, second.status) == ("complete", "complete"), output
    assert (first.printed.value, second.printed.value) == (1, 2)
    assert [rank.host for rank in second.ranks] == ["n1", "n2"]
    assert set(Study(results).local["ranks"]) == {1, 2}


def test_over_ssh_it_starts_here_and_reaches_the_hosts_itself(cluster, results):
    start = "for host in $(echo {host_names} | tr , ' '); do ssh -o BatchMode=yes $host hostname; done"
    done = cluster.on("n0", *LAUNCH, *over_hosts(results, start, "launcher=ssh", "launcher.hosts=[n1,n2]"))
    assert done.returncode == 0, done.stdout
    check_hosts(results, done.stdout)


def test_under_slurm_it_is_started_on_the_first_host_of_the_allocation(cluster, results):
    start = "srun --nodes={nodes} --ntasks={ranks} --nodelist={host_names} hostname"
    submitted = cluster.on("n0", *LAUNCH, *over_hosts(results, start, "launcher=slurm", "system=slurm"))
    assert submitted.returncode == 0, submitted.stdout
    wait_for(lambda: not cluster.queue())
    log = "".join(path.read_text() for path in results.glob("*/slurm/*.log"))
    check_hosts(results, log)
