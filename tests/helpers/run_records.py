"""Run records with given step times, in the layout of the launcher."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path

import pandas as pd

from analysis.study import Study
from analysis.table.record_rows import Notice, TabulatedRun, tabulate
from record import clock, record_summary, recorded_config
from record import rounds as in_rounds
from record import run_files as files
from record import schema as record
from record.schema import Epoch, Rank, Role, RunRecord

# Seconds. The step times give 'timed' and 'warm_up'.
PHASES_S = {
    "start": 0.5,
    "import": 3.0,
    "init": 0.5,
    "data": 0.1,
    "build": 2.0,
    "broadcast": 0.4,
    "first_step": 6.0,
    "evaluate": 0.0,
    "checkpoint": 0.0,
    "exit": 0.5,
}
CPU = "AMD EPYC 9B45"


def make_record(
    experiment: str = "weak_scaling",
    model: str = "resnet50",
    nodes: int = 1,
    ranks_per_node: int = 1,
    step_s: float = 0.5,
    batch_per_rank: int = 8,
    steps: int = 4,
    repeat: int = 0,
    generation: int = 0,
    warm_up_steps: int = 2,
    failure: record.Failure | None = None,
    epochs: list[Epoch] | None = None,
    losses: list[float] | None = None,
    swept: dict[str, object] | None = None,
    arm: str | None = None,
    role: Role = "point",
    arm_keys: Sequence[str] = (),
    derived: Sequence[str] = ("global_batch", "threads_per_rank"),
    **config: object,
) -> RunRecord:
    """Return a run whose steps all take `step_s`, so that images_per_s is global_batch / step_s.

    epochs: have the steps instead, each with its duration; the first step of all is not timed.
    losses: give the number of steps.
    swept: by default the model and the nodes.
    config: replaces values of the configuration by top-level key, and values in a group by dotted key.
    """
    ranks = nodes * ranks_per_node
    steps = len(losses) if losses else steps
    values = {
        "experiment": experiment,
        "model": {"name": model},
        "dataset": {"name": "synthetic"},
        "device": "cpu",
        "launcher": {"name": "local", "cores_fraction": 1.0},
        "system": {"name": "laptop", "cores_per_node": 1, "link_mbit_per_s": None},
        "nodes": nodes,
        "ranks_per_node": ranks_per_node,
        "threads_per_rank": None,
        "batch_per_rank": batch_per_rank,
        "global_batch": batch_per_rank * ranks,
        "precision": "fp32",
        "optimizer": {"name": "sgd", "learning_rate": 0.01, "learning_rate_scaling": "none"},
        "distribution": {"backend": "horovod", "allreduce": True, "controller": "gloo"},
        "measure": {"name": "quick", "warm_up_steps": warm_up_steps, "timed_steps": steps, "repeats": 3},
        "seed": 0,
        "derived": [*derived],
        **{key: value for key, value in config.items() if "." not in key},
    }
    for key, value in config.items():
        group, _, name = key.rpartition(".")
        if group:
            values[group] = {**values[group], name: value}
    step_times, warm_up_times = [step_s] * steps, [step_s] * warm_up_steps
    if epochs:  # such training has no warm-up
        step_times = [epoch.duration_s / epoch.steps for epoch in epochs for _ in range(epoch.steps)][1:]
        warm_up_times = []
    phases = PHASES_S | {"warm_up": sum(warm_up_times), "timed": sum(step_times)}
    if epochs:
        del phases["warm_up"]
    phases = {name: phases[name] for name in record.PHASES if name in phases}
    rank_records = [
        Rank(i, i % ranks_per_node, i // ranks_per_node, "host0", [i], None, dict(phases), [*warm_up_times],
             [*step_times], 2**30)
        for i in range(ranks)
    ]  # fmt: skip
    if values["distribution"]["backend"] in recorded_config.TOWERS:  # one process has all cores
        rank_records = [replace(rank_records[0], cores=list(range(ranks)), workers=ranks)]
    if epochs:
        for rank in rank_records:  # half of its core, and one GiB
            rank.usage = record.Usage([5.5, 6.5, 7.5], [1.0, 1.5, 2.0], [2**30] * 3, [None] * 3, [None] * 3)
    if values["measure"].get("total_steps"):
        values["derived"].append("measure.timed_steps")
    rate = values["optimizer"]["learning_rate"]
    state = record.HostState(None, None, None, False, 1, "madvise", 0.1, ["avx", "avx2", "fma"], [], None)
    host = record.Host("host0", CPU, 4, 8 * 2**30, "6.1", [], state)
    variables = {"TF_CPP_MIN_LOG_LEVEL": "1"}
    return RunRecord(
        experiment=experiment,
        point=f"{model}_nodes={nodes}",
        repeat=repeat,
        generation=generation,
        config_hash=recorded_config.values_hash(values),
        config=values,
        status="failed" if failure else "complete",
        failure=failure,
        started_at="2026-11-20T12:00:00Z",
        command=["python", "-m", "train"],
        job_s=sum(phases.values()),
        cores_shared=False,
        source_digest="1" * 64,
        swept={"model": model, "nodes": nodes} if swept is None else swept,
        arm=arm,
        role=role,
        arm_keys=list(arm_keys),
        learning_rate=rate * (ranks if values["optimizer"]["learning_rate_scaling"] == "linear" else 1),
        ranks=rank_records,
        environment=record.Environment(
            [host], {"tensorflow": "2.18.1"}, ["gloo"], None, None, None, None, "0" * 40, False, variables
        ),
        schema_version=record.SCHEMA_VERSION,
        losses=losses or [],
        epochs=epochs or [],
    )


@dataclass(frozen=True)
class Arm:
    """One arm of a launch in rounds."""

    nodes: int
    allreduce: bool = True
    batch_per_rank: int = 8
    role: str = ""  # "": a control without allreduce, else a point
    reads: bool = False


WEAK = (Arm(1), Arm(2), Arm(2, allreduce=False))
# Emulated nodes that read images: of one rank alone the control is the arm with the batch in memory.
READING = (Arm(1, reads=True), Arm(1, False), Arm(2, reads=True), Arm(2, role="in-memory"), Arm(2, False))

# The configuration of emulated nodes, each with a fifth of a core.
QUOTA = {"system": {"name": "laptop", "cores_per_node": 1, "cpu_quota_per_node": 0.2, "link_mbit_per_s": None}}
QUOTA |= {"launcher": {"name": "emulated", "cores_fraction": 0.8, "flat_within_fraction": 0.1}}
# The arguments of a control.
NO_ALLREDUCE = {"distribution": {"backend": "horovod", "allreduce": False, "controller": "gloo"}, "role": "control"}


def make_rounds(
    rounds: Sequence[Sequence[float]], arms: Sequence[Arm] = WEAK, steps: int = 2, **fields: object
) -> RunRecord:
    """Return a launch in rounds. rounds: for each round the step time of each arm, in s, which all its ranks have.

    The windows of a round are in the order of the arms; `update_derived` puts them into that of the launch.
    """
    model, largest = str(fields.get("model", "resnet50")), arms[-1]
    batch = {"batch_per_rank": largest.batch_per_rank, "nodes": largest.nodes}
    arm_values = [_arm_values(arm, model) for arm in arms]
    if not any(values["role"] == "base" for values in arm_values):
        next(values for values in arm_values if values["role"] == "point")["role"] = "base"
    plan = {"rounds": arm_values, "rank_groups": [], "rank_groups_at_once": False}
    run = make_record(**{"swept": {"model": model}, **plan, **batch, **fields})
    run.point, run.role = f"{model}-rounds", None
    for rank in run.ranks:
        rank.step_times_s, rank.warm_up_step_times_s = [], []
        rank.phases_s["timed"] = sum(step_s * steps for times in rounds for step_s in times)
        rank.windows = [
            record.Window(number, index, step_s * steps, [step_s] * steps, [step_s * 0.9] * steps)
            for number, times in enumerate(rounds)
            for index, (arm, step_s) in enumerate(zip(arms, times, strict=True))
            if rank.rank < arm.nodes
        ]
    run.job_s = sum(run.ranks[0].phases_s.values())
    return run


def disturb(run: RunRecord, fractions: Mapping[int, float], ranks: Sequence[int] = (0, 1)) -> RunRecord:
    """Count what others took of a core in the windows of these rounds on some ranks, and else nothing."""
    run.config["measure"] = run.config["measure"] | {"precision_fraction": 0.05}
    for rank in run.ranks:
        for window in rank.windows:
            busy_s = round(0.9 * window.window_s, 2)
            others_s = window.window_s * fractions.get(window.round, 0.0) if rank.rank in ranks else 0.0
            window.cores = record.CoreUse(window.window_s, busy_s - others_s, busy_s, 0.0)
    return run


def _arm_values(arm: Arm, model: str) -> dict[str, object]:
    """Return the arm as in the configuration of a record."""
    control = None if arm.allreduce else record.WITHOUT_ALLREDUCE
    role = arm.role or ("control" if control else "point")
    settings = {
        "ranks": arm.nodes,
        "arm": control,
        "role": role,
        "swept": {"model": model, "nodes": arm.nodes},
        "rank_group": 0,
        "link_mbit_per_s": None,
    }
    return {"name": f"nodes{arm.nodes}-{control or ''}", **asdict(arm), **settings}


def as_sweep(
    run: RunRecord, times: dict[int, list[list[float]]], transfers: Sequence[Sequence[tuple[str, str, int, float]]] = ()
) -> RunRecord:
    """Turn the record into one of an allreduce sweep; return it.

    times: for each message size the times of each rank, in s.
    transfers: for each rank the transfers: kind, source, bytes, s.
    """
    run.config["allreduce_sweep"], run.learning_rate = {}, None
    timed_s = max(sum(sum(rank_times[rank.rank]) for rank_times in times.values()) for rank in run.ranks)
    for rank in run.ranks:
        rank.step_times_s, rank.warm_up_step_times_s = [], []
        rank.allreduces = [record.AllreduceTimes(size, rank_times[rank.rank]) for size, rank_times in times.items()]
        rank.transfers = [record.Transfer(*transfer) for transfer in transfers[rank.rank]] if transfers else []
        rank.phases_s = {"start": 1.0, "warm_up": 1.0, "timed": timed_s}
    return run


def run_with_names(**fields: object) -> RunRecord:
    """Return a run with the names of its hosts and of its user in all fields that can have them."""
    run = make_record(nodes=2, **fields)
    run.ranks[0].host, run.ranks[1].host = "owens-ib.osc.edu", "owens-ib2"
    run.environment.hosts = [replace(run.environment.hosts[0], host=rank.host) for rank in run.ranks]
    run.environment.variables = {
        "SLURM_JOB_USER": "jdoe42",
        "SLURM_NODELIST": "owens-ib[01-02]",
        "SLURM_NNODES": "2",
        "OMPI_MCA_orte_hnp_uri": "1;tcp://10.3.0.7:4000",
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.1",
        "HOROVOD_CYCLE_TIME": "20",
        "TF_CONFIG": "owens-ib2:2222, /home/jdoe42/tf.json, 10.3.0.8",
    }
    run.environment.image = "/scratch/jdoe42/kit.sif"
    run.config["results"] = "/home/jdoe42/kit/results"
    run.config["tracking"] = {"name": "wandb", "project": "scaling", "entity": "the-lab", "sync": False}
    run.command = ["/home/jdoe42/kit/.venv/bin/python", "-m", "train", "results=/scratch/jdoe42", "hosts=owens-ib:1"]
    run.typed_command = ["make", "weak-scaling", "HOSTS=owens-ib,owens-ib2", "ARGS=system.account=pas42"]
    run.notes = ["rank 1 on owens-ib2 was slow; see /home/jdoe42/kit/rank-1.log"]
    return run


def update_derived(run: RunRecord) -> RunRecord:
    """Set what the launcher derives from other fields: hash, job time, exit phase, summary, order of windows."""
    _sort_windows(run)
    run.config_hash = recorded_config.values_hash(run.config)
    busy_s = [sum(rank.phases_s.values()) for rank in run.ranks]
    run.job_s = max(busy_s, default=run.job_s)
    for rank, rank_s in zip(run.ranks, busy_s, strict=True):
        rank.phases_s["exit"] = rank.phases_s.get("exit", 0.0) + run.job_s - rank_s
    run.summary = record_summary.record_summary(run)
    return run


def _sort_windows(run: RunRecord) -> None:
    """Put the windows of each round into the order of the launch."""
    arms = run.config.get("rounds") or []
    measured = [index for index, arm in enumerate(arms) if arm["name"] not in run.arms_left_out]
    rounds = 1 + max((window.round for rank in run.ranks for window in rank.windows), default=-1)
    orders = list(islice(in_rounds.orders(run.config["seed"], run.repeat, len(measured)), rounds))
    for rank in run.ranks:
        rank.windows.sort(key=lambda window: (window.round, orders[window.round].index(measured.index(window.arm))))


def save(run: RunRecord, results: Path) -> Path:
    """Update the derived fields of the record, write it as the launcher does, and return its path."""
    return save_unchanged(update_derived(run), results)


def save_unchanged(run: RunRecord, results: Path) -> Path:
    """Write the record as the launcher does; return its path."""
    # The generations of these helpers begin with 0, those of folders with 1, which is not in the name.
    name = f"r{run.repeat}" + (f".{run.generation + 1}" if run.generation else "")
    path = results / run.experiment / run.point / run.config_hash[:8] / name / record.RECORD_NAME
    files.write_file(path, record.dumps(run))
    return path


def tabulate_file(path: Path) -> TabulatedRun | Notice:
    """Return the entry in the table of the record at `path`."""
    return tabulate(record.load(path), str(path))


@dataclass
class Results:
    """A results folder that a test fills."""

    folder: Path
    paths: list[Path] = field(default_factory=list)

    def add(self, **fields: object) -> Path:
        """Save the record that `make_record` returns for these arguments."""
        self.paths.append(save(make_record(**fields), self.folder))
        return self.paths[-1]

    def study(self) -> Study:
        """Return the study of the records in the folder."""
        return Study(self.folder)

    def table(self) -> pd.DataFrame:
        """Return the local table of the records in the folder."""
        return self.study().local


def with_roofline(run: RunRecord, arms: Sequence[int | None] = (None,)) -> RunRecord:
    """Add a matrix product at 100 GFLOP/s (1000 rows in 20 ms) and a transfer at 1 GB/s to each rank, for these arms.

    At 20 GFLOP an image that is 5 images/s a rank. The gradients are 0.1 GB.
    """
    run.work = record.Operations(operations_per_image=20 * 10**9, gradient_bytes=10**8)
    for rank in run.ranks:
        rank.matrix_products = [record.MatrixProduct(1000, [0.03, 0.02, 0.025], arm) for arm in arms]
        rank.transfers = [record.Transfer("tcp_ring", "127.0.0.1", 10**9, 1.0, arm) for arm in arms]
    return run


def make_program(
    nodes: int,
    rate: float,
    unit: str = "cells/s",
    scaling: str = "weak",
    repeat: int = 0,
    typed_command: Sequence[str] = (),
    **config: object,
) -> RunRecord:
    """Return a launch of a user's program without a batch, which printed this rate; the job took 10 s.

    The user has confirmed the rate.
    """
    keys = {"name": "my_solver", "command": "mpirun -np {ranks} ./my_solver", "scaling": scaling, "problem": None}
    distribution = {"backend": recorded_config.PROGRAM, "allreduce": True, "controller": ""}
    run = make_record(
        "scaling", "my_solver", nodes, repeat=repeat, swept={"nodes": nodes},
        **{"distribution": distribution, "program": keys, "threads_per_rank": 1} | config,
    )  # fmt: skip
    for name in ("model", "dataset", "precision", "optimizer", "batch_per_rank", "global_batch"):
        del run.config[name]
    run.config["program"] |= {"confirmed": clock.confirmation(run.config["program"], "RATE")}
    phases = {"start": 1.0, "timed": 8.5, "exit": 0.5}
    ranks = [replace(rank, phases_s=phases, warm_up_step_times_s=[], step_times_s=[]) for rank in run.ranks]
    command = ["mpirun", "-np", str(nodes), "./my_solver"]
    libraries = ["/usr/lib/openmpi/lib/libmpi.so.40.30.4", "/usr/lib/libgfortran.so.5.0.0"]
    return replace(
        run, ranks=ranks, job_s=10.0, point=f"nodes{nodes}", learning_rate=None, typed_command=[*typed_command],
        config_hash=recorded_config.values_hash(run.config),
        environment=replace(run.environment, versions={}, horovod_built_with=[]),
        printed=record.PrintedRate(rate, f"rate: {rate}", "RATE", unit),
        program=record.ProgramFacts(command, {"./my_solver": "1" * 64}, "my_solver 1.2", libraries, 0),
    )  # fmt: skip
