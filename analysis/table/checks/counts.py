"""Checks of numbers that are counted or configured: ranks, batches, steps."""

import functools
import itertools
import math
from collections import Counter
from collections.abc import Iterator

import msgspec

from analysis.table.checks.check import (
    Contradiction,
    check,
    in_rounds,
    off,
    resized,
    size,
    size_of_point,
    sweeps,
    trained_epochs,
)
from train.record import recorded_config
from train.record.record import RunRecord
from train.record.recorded_config import scaled_learning_rate


@check
def ranks_and_nodes(run: RunRecord) -> Iterator[Contradiction]:
    """A job has nodes x ranks_per_node ranks, numbered from 0, node by node; an elastic job has its last ranks.

    Ranks of in-process strategies share one process.
    """
    expected = run.resizes[-1].ranks_after if run.resizes else size(run)
    processes = 1 if run.config["distribution"]["backend"] in recorded_config.TOWERS else expected
    numbers, workers = [rank.rank for rank in run.ranks], run.workers
    complete = run.status == "complete"
    if workers > expected or (complete and workers != expected):
        yield Contradiction(f"{workers} ranks", f"nodes x ranks per node = {expected}", off(workers, expected))
    elif complete and numbers != list(range(processes)):
        yield Contradiction(f"ranks numbered {numbers}", f"0 to {processes - 1} are expected")
    for before, after in itertools.pairwise(run.resizes):
        if before.ranks_after != after.ranks_before:
            stated = f"{after.ranks_before} ranks before the change at {after.at_s:.6g} s"
            yield Contradiction(stated, f"{before.ranks_after} after the one before")
    per_node = run.config["ranks_per_node"]
    for rank in [] if run.resizes or run.config.get("rank_groups") else run.ranks:
        if rank.node != rank.rank // per_node:
            yield Contradiction(f"rank {rank.rank} on node {rank.node}", f"{per_node} ranks per node")


@check
def servers(run: RunRecord) -> Iterator[Contradiction]:
    """A complete run has the configured number of separate parameter servers."""
    distribution = run.config["distribution"]
    expected = distribution["servers"] if distribution.get("servers_on") == "nodes" else 0
    if run.status == "complete" and len(run.servers) != expected:
        yield Contradiction(f"{len(run.servers)} servers beside the ranks", f"distribution.servers={expected} on nodes")


@check
def ranks_and_hosts(run: RunRecord) -> Iterator[Contradiction]:
    """The ranks ran on the hosts whose hardware the record describes; elastic training may have lost some."""
    if run.environment is None or not run.environment.hosts or resized(run):
        return
    hosts = {host.host for host in run.environment.hosts}
    if strange := [rank for rank in run.ranks if rank.host not in hosts]:
        yield Contradiction(f"rank {strange[0].rank} on {strange[0].host}", f"hosts {', '.join(sorted(hosts))}")


@check
def batch_and_ranks(run: RunRecord) -> Iterator[Contradiction]:
    """The global batch is batch per rank x passes x ranks; in rounds the largest arm is the job itself."""
    config = run.config
    stated, batch = config.get("global_batch"), config.get("batch_per_rank")
    ranks, passes = size_of_point(run), recorded_config.backward_passes(config)
    if stated is not None and batch is not None and stated != (product := batch * passes * ranks):
        factor = f" x {passes} passes" if passes > 1 else ""
        follows = f"{batch} a rank{factor} x {ranks} ranks = {product}"
        yield Contradiction(f"global batch {stated}", follows, off(stated, product))
    arms = [(arm["nodes"], arm["batch_per_rank"]) for arm in config.get("rounds") or [] if arm["allreduce"]]
    if arms and max(arms)[0] != config["nodes"]:
        yield Contradiction(f"{config['nodes']} nodes", f"{max(arms)[0]} in the largest arm of the rounds")
    elif arms and (config["nodes"], batch) not in arms:
        yield Contradiction(f"batch {batch} a rank", f"{max(arms)[1]} in the largest arm")
    for arm in [] if config.get("rank_groups") else config.get("rounds") or []:
        if (arm_batch := recorded_config.arm_step_batch(arm)) != arm["batch_per_rank"] * passes:
            arm_passes = arm_batch // arm["batch_per_rank"]
            yield Contradiction(f"{passes} backward passes a step", f"{arm_passes} in the arm {arm['name']}")


@check
def roles(run: RunRecord) -> Iterator[Contradiction]:
    """In rounds one arm is the base, or some are controls. Controls exchange nothing; arms in memory read nothing."""
    arms = run.config.get("rounds") or []
    stated = [arm["role"] for arm in arms]
    bases = stated.count("base")
    if arms and (bases > 1 or not {"base", "control"}.intersection(stated)):
        yield Contradiction(f"{bases} arms are the base", "one is, or else one is a control")
    alone = {"name": "the run", "role": run.role, "allreduce": run.config["distribution"]["allreduce"]}
    for arm in arms or [alone]:
        if arm["role"] == "control" and arm["allreduce"]:
            yield Contradiction(f"{arm['name']} is a control", "it exchanges gradients")
        if arm["role"] == "in-memory" and arm.get("reads"):
            yield Contradiction(f"{arm['name']} has its batch in memory", "it reads images")


@check
def step_counts(run: RunRecord) -> Iterator[Contradiction]:
    """All ranks make the configured number of steps, and each step has one of everything."""
    if resized(run) or not run.ranks:
        return
    names = ("step_times_s", "warm_up_step_times_s", "compute_times_s", "allreduces")
    expected_counts = {name: len(getattr(run.ranks[0], name)) for name in names}
    for rank in run.ranks:
        for name, expected in expected_counts.items():
            if (number := len(getattr(rank, name))) != expected:
                yield from _unequal(f"rank {rank.rank}: {number} {name}", number, f"rank 0: {expected}", expected)
        if number := len(rank.compute_times_s):
            steps = len(rank.step_times_s)
            yield from _unequal(f"rank {rank.rank}: {number} compute_times_s", number, f"{steps} steps", steps)
    if run.status == "complete" and not run.printed:
        yield from _configured_steps(run)


def _unequal(stated: str, number: int, follows: str, expected: int) -> Iterator[Contradiction]:
    if number != expected:
        yield Contradiction(stated, follows, off(number, expected))


def _configured_steps(run: RunRecord) -> Iterator[Contradiction]:
    steps, measure = len(run.ranks[0].step_times_s), run.config["measure"]
    if in_rounds(run) or sweeps(run):
        yield from _unequal(f"{steps} steps outside of the windows", steps, "none", 0)
        yield from _message_sizes(run)
        return
    if run.epochs:
        if not trained_epochs(run):
            epochs = sum(epoch.steps for epoch in run.epochs)
            yield from _unequal(f"{steps} timed steps", steps, f"epochs of {epochs} steps, the first not timed", epochs)
        return
    expected = measure["timed_steps"]
    yield from _unequal(f"{steps} timed steps", steps, f"measure.timed_steps={expected}", expected)
    warm_up, expected = len(run.ranks[0].warm_up_step_times_s), measure["warm_up_steps"]
    yield from _unequal(f"{warm_up} steps of warm-up", warm_up, f"measure.warm_up_steps={expected}", expected)
    if run.losses:
        yield from _unequal(f"{len(run.losses)} losses", len(run.losses), f"{steps} timed steps", steps)


def _message_sizes(run: RunRecord) -> Iterator[Contradiction]:
    """Yield differences between ranks in how often they timed a message, and sizes that a round lacks or repeats."""
    for entries in zip(*(rank.allreduces for rank in run.ranks), strict=False):
        kinds = Counter((entry.message_bytes, len(entry.times_s)) for entry in entries)
        if len(kinds) > 1:
            (size_a, count_a), *_, (size_b, count_b) = kinds
            stated, follows = f"{count_b} allreduces of {size_b} bytes on a rank", f"{count_a} of {size_a} bytes"
            yield Contradiction(stated, f"{follows} on another", off(count_b, count_a))
    entry_counts = Counter((entry.round, entry.message_bytes) for entry in run.ranks[0].allreduces)
    rounds, sizes = ({turn[at] for turn in entry_counts} for at in (0, 1))
    for number, message_bytes in itertools.product(sorted(rounds), sorted(sizes)):
        if (count := entry_counts[number, message_bytes]) != 1:
            yield Contradiction(f"round {number}: {count} entries of {message_bytes} bytes", "each size once a round")


@check
def config_hash(run: RunRecord) -> Iterator[Contradiction]:
    """The hash of the configuration follows from the configuration: runs with one hash are repeats of one point."""
    if (follows := _hash(msgspec.json.encode(run.config))) != run.config_hash:
        yield Contradiction(f"config_hash {run.config_hash[:12]}", f"the configuration has the hash {follows[:12]}")


@functools.lru_cache(maxsize=256)
def _hash(config: bytes) -> str:
    """Return the hash of a configuration, computed once for the repeats of a point."""
    return recorded_config.values_hash(msgspec.json.decode(config))


@check
def learning_rate(run: RunRecord) -> Iterator[Contradiction]:
    """The learning rate in force is the configured one, scaled with ranks and passes; a sweep has none."""
    if run.learning_rate is None:
        return
    passes, ranks = recorded_config.backward_passes(run.config), size_of_point(run)
    rate, scaling = (run.config["optimizer"][name] for name in ("learning_rate", "learning_rate_scaling"))
    scaled = scaled_learning_rate(rate, scaling, ranks * passes)
    if not math.isclose(run.learning_rate, scaled, rel_tol=1e-9):
        factor = f" x {passes} passes" if passes > 1 else ""
        follows = f"{rate:.6g} with scaling {scaling} on {ranks} ranks{factor} is {scaled:.6g}"
        yield Contradiction(f"learning rate {run.learning_rate:.6g}", follows, off(run.learning_rate, scaled))


@check
def swept_values(run: RunRecord) -> Iterator[Contradiction]:
    """Swept values agree with the configuration; for a config group `swept` names the file."""
    for key, stated in run.swept.items():
        value = run.config
        for name in key.split("."):
            value = value.get(name, {}) if isinstance(value, dict) else {}
        if not isinstance(value, dict) and value != stated:
            yield Contradiction(f"swept: {key}={stated}", f"the configuration has {key}={value}")


@check
def shared_cores(run: RunRecord) -> Iterator[Contradiction]:
    """Ranks of one host that are bound to the same core share it, unless each node is held to a quota."""
    limited = run.node_quotas or run.config["system"].get("cpus_per_node") is not None
    in_turn = run.config.get("rank_groups") and not run.config["rank_groups_at_once"]
    if run.config["device"] != "cpu" or limited or run.cores_shared or resized(run) or in_turn:
        return
    owners = "processes" if run.servers else "ranks"
    bound = [(process.host, core) for process in run.processes for core in set(process.cores)]
    if len(set(bound)) == len(bound):
        return
    for (host, core), count in Counter(bound).items():
        if count > 1:
            yield Contradiction("cores_shared false", f"{count} {owners} are on core {core} of {host}")


@check
def quotas(run: RunRecord) -> Iterator[Contradiction]:
    """A node was held to the configured share of the machine, and not longer than the job ran."""
    configured = run.config["system"].get("cpus_per_node")
    for quota in run.node_quotas:
        node, periods, throttled = f"node {quota.node}", quota.periods, quota.throttled_periods
        if configured is not None and quota.cpus != configured:
            stated = f"{node}: {quota.cpus:g} cores"
            yield Contradiction(stated, f"system.cpus_per_node={configured:g}", off(quota.cpus, configured))
        if throttled > periods:
            stated = f"{node}: {throttled} periods throttled"
            yield Contradiction(stated, f"{periods} in all", off(throttled, periods))
        if (time_s := periods * quota.period_s) > run.job_s:
            stated = f"{node}: {periods} periods of {quota.period_s:g} s"
            yield Contradiction(stated, f"the job took {run.job_s:.6g} s", off(time_s, run.job_s))
