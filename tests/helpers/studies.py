"""Studies in a results folder, with given numbers: curves in rounds, strategies, months, and all experiments."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from record.schema import Epoch, RunRecord, Server
from tests.helpers.run_records import QUOTA, Arm, Results, as_sweep, make_record, make_rounds, save, with_roofline

STEP_S = {"vgg16": 1.6, "resnet50": 0.5, "inceptionv3": 0.7, "vgg19": 1.9, "resnet101v2": 0.9, "inceptionv4": 1.1}
EPOCHS = [Epoch(i, 10, 2.0, 1 / i, 1 - 0.5 / i, 1 / i, 1 - 0.6 / i) for i in range(1, 6)]
ARMS = ("nodes", "distribution", "distribution.allreduce")
LINK = "system.link_mbit_per_s"


def curve_in_rounds(results: Path, model: str = "resnet50", **fields: object) -> None:
    """Save a clean weak scaling study: two launches of six rounds, and a launch of the smaller point alone.

    The ratios of two nodes over one are 1.50 to 1.56 and 1.60 to 1.65, in mixed order. The medians of the launches are
    1.56 and 1.595. Without allreduce all ratios are 1.9. The machine drifts by a tenth a round.
    """
    for launch, ratios in enumerate(([1.50, 1.61, 1.51, 1.62, 1.60, 1.52], [1.64, 1.54, 1.56, 1.63, 1.53, 1.65])):
        alone = [STEP_S[model] * (1 + 0.1 * number) for number in range(6)]
        rounds = [(step, 2 * step / ratio, 2 * step / 1.9) for step, ratio in zip(alone, ratios, strict=True)]
        save(make_rounds(rounds, repeat=launch, model=model, **fields), results)
    save(make_record(model=model, step_s=0.5, **fields), results)


def fill(results: Results) -> Results:
    """Save two repeats of the experiments in conf/experiment, as the launcher writes them; return `results`."""
    for repeat in range(2):
        _throughputs(results, repeat)
        _arms(results, repeat)
        for nodes in (2, 4):
            time_s = {1 << k: 0.02 * (1 + 0.01 * repeat) for k in range(10, 30)}
            save(_sweep(nodes, repeat, time_s), results.folder)
        for experiment in ("accuracy_digits", "fruit", "caltech256", "imdb_wiki"):
            for nodes in (2, 4):
                results.add(experiment=experiment, model="tiny", nodes=nodes, step_s=0.1, repeat=repeat, epochs=EPOCHS)
    return results


def _throughputs(results: Results, repeat: int) -> None:
    for model in ("vgg16", "resnet50", "inceptionv3"):
        run = {"model": model, "step_s": STEP_S[model] * (1 + 0.01 * repeat), "repeat": repeat}
        strong = run | {"derived": ["batch_per_rank", "threads_per_rank"]}
        for n in (1, 2):
            results.add(nodes=n, **run)
            results.add(experiment="bnl_throughput", nodes=n, **run)
            results.add(experiment="strong_scaling", nodes=n, batch_per_rank=8 // n, **strong)
            swept = {"model": model, "dataset": "synthetic", "batch_per_rank": 32, "nodes": n}
            results.add(experiment="tf_benchmarks", nodes=n, batch_per_rank=32, swept=swept, **run)
            swept = {"model": model, "batch_per_rank": n}
            results.add(experiment="batch_sweep", batch_per_rank=n, swept=swept, **run)
            swept, threads = {"model": model, "ranks_per_node": n}, 4 // n
            results.add(
                experiment="ranks_threads", ranks_per_node=n, threads_per_rank=threads, batch_per_rank=8 // n,
                swept=swept, **strong,
            )  # fmt: skip
    for model in ("vgg19", "resnet101v2", "inceptionv4"):
        for nodes in (1, 2, 4):
            measure = {"name": "quick", "warm_up_steps": 2, "timed_steps": 16 // nodes, "total_steps": 16}
            run = {"model": model, "nodes": nodes, "step_s": STEP_S[model], "steps": 16 // nodes, "repeat": repeat}
            results.add(experiment="fixed_work", measure=measure, **run)


def _arms(results: Results, repeat: int) -> None:
    for nodes, backend, allreduce in (
        (1, "none", False),
        (1, "horovod", True),
        (2, "horovod", True),
        (2, "horovod", False),
    ):
        distribution = {"backend": backend, "allreduce": allreduce, "controller": "gloo"}
        results.add(
            experiment="overhead", nodes=nodes, step_s=0.5 * (1 + 0.01 * repeat), repeat=repeat,
            distribution=distribution, swept={"model": "resnet50"}, arm=f"{nodes}-{backend}-{allreduce}", arm_keys=ARMS,
            role="point" if allreduce else "base",
        )  # fmt: skip
    for arm, batches, derived in (
        ("same-steps", {1: 64, 2: 32}, "batch_per_rank"),
        ("batch-per-rank-kept", {2: 64}, "global_batch"),
    ):
        for nodes, batch in batches.items():
            results.add(
                experiment="equivalence", model="digits_plain", nodes=nodes, batch_per_rank=batch,
                dataset={"name": "digits"}, losses=[2.0, 1.0 + 0.1 * (arm != "same-steps"), 0.5], warm_up_steps=0,
                repeat=repeat, swept={"nodes": nodes}, arm=arm, derived=[derived],
                role="base" if arm == "same-steps" else "point",
                arm_keys=["global_batch", "batch_per_rank"],
            )  # fmt: skip
    for link, allreduce, step_s in ((100, True, 0.9), (1000, True, 0.5), (None, True, 0.4), (None, False, 0.3)):
        results.add(
            step_s=step_s, repeat=repeat, arm=f"allreduce-{allreduce}", arm_keys=[*ARMS, LINK],
            role="point" if allreduce else "control", **with_link(link), **{"distribution.allreduce": allreduce},
        )  # fmt: skip


def with_link(mbit_per_s: float | None, nodes: int = 4) -> dict[str, object]:
    """Return the arguments of a run on emulated nodes whose links have this limit, or none."""
    return {
        "experiment": "network_sweep", "model": "alexnet", "nodes": nodes, **QUOTA, LINK: mbit_per_s,
        "model.image_size": 67, "model.parameters": 1_000_000, "swept": {"model": "alexnet", LINK: mbit_per_s},
    }  # fmt: skip


def _sweep(nodes: int, repeat: int, time_s: dict[int, float], samples: int = 1, **fields: object) -> RunRecord:
    """Return a sweep whose allreduces take so long on all ranks, by message size."""
    key = "distribution.cycle_time_ms"
    swept = {"distribution.controller": "gloo", key: 20, "nodes": nodes}
    run = make_record("allreduce_bench", nodes=nodes, repeat=repeat, swept=swept, **{key: 20}, **fields)
    times = {size: [[each_s] * samples] * nodes for size, each_s in time_s.items()}
    return as_sweep(run, times, [[("memory_copy", "", 10**9, 0.1)]] * nodes)


NODES = (1, 2, 4, 8)
_ROUND_SCATTER = (0.0, 0.004, -0.003, 0.002, -0.004, 0.001, 0.003, -0.001, -0.002, 0.004, 0.0, -0.004)


def long_curve(results: Path, experiment: str, efficiencies, strong: bool = False, **fields: object) -> None:
    """Save two launches of twelve rounds. A step takes 0.5 s on one node, and efficiencies scatter by 0.4 %.

    The batch is 32 a rank, in strong scaling 32 in all: 64 images/s on one node.
    """
    arms = [Arm(nodes, batch_per_rank=32 // nodes if strong else 32) for nodes in NODES]
    strong_fields = {"derived": ("batch_per_rank", "threads_per_rank"), "global_batch": 32} if strong else {}
    for launch in range(2):
        rounds = []
        for number, scatter in enumerate(_ROUND_SCATTER):
            alone = 0.5 * (1 + 0.01 * (number % 3))
            shares = [1.0, *(share * (1 + scatter) for share in efficiencies[1:])]
            rounds.append(
                [alone / (share * (nodes if strong else 1)) for nodes, share in zip(NODES, shares, strict=True)]
            )
        save(make_rounds(rounds, arms, repeat=launch, experiment=experiment, **strong_fields, **fields), results)


# Seconds of a step, and seconds until the local gradients of each rank are ready. The update takes 0.02 s.
STEPS_S = {
    "horovod": (0.5, (0.42, 0.45)),
    "mwms": (0.7, (0.43, 0.46)),
    "ps": (0.6, (0.44, 0.44)),
    "one-rank-alone": (0.4, (0.38,)),
}
BACKENDS = {"horovod": "horovod", "mwms": "mwms", "ps": "ps", "one-rank-alone": "none"}
DRIFT = (1.0, 1.1, 0.9, 1.05, 1.2, 0.95)  # of the machine, from repeat to repeat


def strategies(results: Path, servers: int = 0) -> None:
    """Save six repeats of each arm, 8 images a rank. servers: of the arm `ps`, on nodes of one core; 0: no such arm."""
    for repeat, drift in enumerate(DRIFT):
        for arm, (step_s, ready_s) in STEPS_S.items():
            if arm == "ps" and not servers:
                continue
            backend = BACKENDS[arm]
            distribution = {"backend": backend, "allreduce": backend != "none", "controller": "gloo"}
            distribution |= {"gradients": "grouped" if backend == "mwms" else "flat"}
            distribution |= {"servers": servers, "servers_on": "nodes"} if arm == "ps" else {}
            record = make_record(
                "strategies", nodes=len(ready_s), step_s=step_s * drift, repeat=repeat, arm=arm,
                role="base" if arm == "horovod" else "point",
                distribution=distribution, arm_keys=["distribution", "nodes"],
            )  # fmt: skip
            record.point = f"resnet50-nodes{len(ready_s)}-{arm}"
            record.servers = [Server(2 + n, f"host{2 + n}", [0], 1) for n in range(servers if arm == "ps" else 0)]
            for rank, ready in zip(record.ranks, ready_s, strict=True):
                rank.compute_times_s = [ready * drift] * len(rank.step_times_s)
            save(with_roofline(record), results)


MONTH_STEP_S = {1: 0.5, 2: 0.6}  # by nodes: 16 and 26.667 images/s
ALLREDUCE_S = {1024: 0.02, 2**20: 0.01}  # 1 MiB on two ranks in 10 ms: a bus bandwidth of 104.9 MB/s
_STEPS = ("warm_up", "timed")  # the phases that are sums of steps
_SCATTER = (1.0, 1.004, 0.996, 1.002, 0.998, 1.006)


def month(
    results: Path,
    generation: int,
    slower: float = 1.0,
    launches: int = 3,
    nodes: Sequence[int] = (1, 2),
    commit: str = "a" * 40,
    imports: float = 1.0,
    **fields: object,
) -> None:
    """Save the launches of one month, with each phase `slower` times as long. The nth generation is the nth month.

    The wall time is 9.4 s on one node and 10 s on two, the job time 16 s and 16.6 s, all x `slower` x scatter.
    imports: a further factor of the import of TensorFlow, of 3 s.
    """
    for repeat in range(launches):
        for number in nodes:
            factor = slower * _SCATTER[(repeat + number) % len(_SCATTER)]
            run = make_record(
                nodes=number, step_s=MONTH_STEP_S[number] * factor, repeat=repeat, generation=generation, **fields
            )
            for rank in run.ranks:
                rank.phases_s |= {name: s * factor for name, s in rank.phases_s.items() if name not in _STEPS}
                rank.phases_s["import"] *= imports
            run.started_at = f"2026-{generation + 1:02d}-03T12:{repeat:02d}:{number:02d}Z"
            run.environment.git_commit = commit
            save(run, results)


def month_of_allreduce(results: Path, generation: int, slower: dict[int, float] | None = None) -> None:
    """Save three launches of one month. slower: the factor of the time, by message size."""
    for repeat in range(3):
        time_s = {size: s * _SCATTER[repeat] * (slower or {}).get(size, 1.0) for size, s in ALLREDUCE_S.items()}
        run = _sweep(2, repeat, time_s, samples=5, generation=generation)
        run.started_at = f"2026-{generation + 1:02d}-03T12:{repeat:02d}:00Z"
        save(run, results)


def month_in_rounds(results: Path, generation: int, speedup: float = 1.5) -> None:
    """Save one launch in rounds of one month."""
    steps = [0.5 * (1 + 0.001 * (number % 5)) for number in range(6)]
    run = make_rounds([(step, 2 * step / speedup, 2 * step / 1.9) for step in steps], generation=generation)
    run.started_at = f"2026-{generation + 1:02d}-03T12:00:00Z"
    save(run, results)
