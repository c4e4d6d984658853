"""The power and the false alarms of the audit's rules: on disturbed records, faults of studies, noise.

    python -m benchmarks.audit_power [--runs 200] [--studies 200]

It prints the tables of docs/audit.md. Each line counts simulated records or studies whose truth is known; in brackets
is the 95 % interval of the share (Clopper and Pearson).
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd

from analysis import audit
from analysis.audit import user_tables
from analysis.audit.findings import TABLE_RULES
from analysis.finding import Finding
from analysis.stats.repeats import proportion
from analysis.user_table import table as user_table
from benchmarks import faulty_studies
from benchmarks.common import Rng, options, show
from common import affinity
from record.schema import RunRecord
from tests.helpers import noisy_records
from tests.helpers.tidy_rows import row, table

SEED = 14


def share(count: int, total: int) -> str:
    """Return a share with its 95 % interval."""
    low, high = proportion(count, total).interval
    return f"{count / total:.3f} ({low:.3f} to {high:.3f})"


def _study_alarms(fault: str, truth: faulty_studies.Truth, runs: int) -> tuple[Counter[str], int]:
    """Return how often each rule fires with a warning or worse over so many studies, and in how many any does.

    On clean studies these are all rules, on faulty ones those that can see the fault.
    """
    rng, fired, alarms = np.random.default_rng(SEED), Counter[str](), 0
    rules = faulty_studies.FAULTS[fault][1] if fault else tuple(TABLE_RULES)
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(runs):
            study = faulty_studies.faulty(rng, fault, truth) if fault else faulty_studies.clean(rng, truth)
            tidy, _ = user_tables.read(user_table.read(faulty_studies.write(study, Path(folder) / "study.csv")))
            names = {f.rule for rule in rules for f in TABLE_RULES[rule](tidy) if f.severity != "note"}
            fired.update(sorted(names))
            alarms += bool(names)
    return fired, alarms


TRUTHS = {
    "noise 1 %, one run a point": faulty_studies.Truth(),
    "noise 3 %, one run a point": faulty_studies.Truth(noise=0.03),
    "noise 1 %, three repeats": faulty_studies.Truth(repeats=3),
    "noise 3 %, three repeats": faulty_studies.Truth(noise=0.03, repeats=3),
    "noise 1 %, ideal scaling, three repeats": faulty_studies.Truth(repeats=3, per_doubling=1.0),
}


Case = tuple[str, str, faulty_studies.Truth]  # name, fault ("": none), truth


def cases() -> list[Case]:
    """Return clean studies, then each fault in two kinds of study."""
    result = [(f"clean: {name}", "", truth) for name, truth in TRUTHS.items()]
    for fault in faulty_studies.FAULTS:
        for truth in (faulty_studies.Truth(noise=0.01), faulty_studies.Truth(noise=0.03, repeats=3)):
            result.append((f"{fault}; noise {truth.noise:.0%}, n={truth.repeats}", fault, truth))
    return result


def study_power(selection: Sequence[Case], runs: int) -> Iterator[list[object]]:
    """Yield the false alarms on clean studies, and how often a rule of each fault finds it."""
    with ProcessPoolExecutor(len(affinity.usable_cores())) as pool:
        jobs = [pool.submit(_study_alarms, fault, truth, runs) for _, fault, truth in selection]
        for (name, _, _), job in zip(selection, jobs, strict=True):
            rules, alarms = job.result()
            named = ", ".join(f"{rule} {count / runs:.3f}" for rule, count in rules.most_common()) or "none"
            yield [name, share(alarms, runs), named]


def _record_alarms(make_runs: Callable[[Rng], list[RunRecord]], runs: int) -> Counter[str]:
    """Return how often each rule over records fires with a warning or worse."""
    rng, rules = np.random.default_rng(SEED), Counter[str]()
    for _ in range(runs):
        runs_by_name = [(str(index), run) for index, run in enumerate(make_runs(rng))]
        findings: list[Finding] = list(audit.run_findings(runs_by_name))
        rules.update(sorted({finding.rule for finding in findings if finding.severity != "note"}))
    return rules


def _scaled(run: RunRecord, factor: Callable[[int, int], float]) -> RunRecord:
    """Multiply each timed step of each rank, and its time of computing, by a factor of rank and step."""
    for rank in run.ranks:
        for name in ("step_times_s", "compute_times_s"):
            setattr(rank, name, [v * factor(rank.rank, i) for i, v in enumerate(getattr(rank, name))])
    return run


def _launch(rng: Rng, **more: object) -> RunRecord:
    return noisy_records.launch(rng, steps=30, **more)  # type: ignore[arg-type]


def _arm(run: RunRecord, index: int, factor: Callable[[int], float]) -> RunRecord:
    """Multiply the windows of one arm by a factor of the round."""
    for rank in run.ranks:
        for window in rank.windows:
            if window.arm == index:
                window.window_s *= factor(window.round)
    return run


def _other_machine(run: RunRecord) -> RunRecord:
    assert run.environment
    run.environment.hosts[0].cpu_model = "another CPU"
    return run


def _counted(rng: Rng, repeat: int = 0, **shares: float) -> RunRecord:
    return noisy_records.with_counters(rng, noisy_records.rounds(rng, number=24, repeat=repeat), **shares)


CASES: dict[str, tuple[Callable[[Rng], list[RunRecord]], str]] = {
    "first 3 of 30 steps 1.15 times longer": (
        lambda rng: [_scaled(_launch(rng), lambda rank, i: 1.15 if i < 3 else 1.0)],
        "warm_up_drift",
    ),
    "2 of 30 steps 3 times longer, on the last rank": (
        lambda rng: [_scaled(_launch(rng), lambda rank, i: 3.0 if rank == 1 and i in (9, 19) else 1.0)],
        "step_outliers",
    ),
    "one rank computes 1.3 times longer": (
        lambda rng: [_scaled(_launch(rng), lambda rank, i: 1.3 if rank == 1 else 1.0)],
        "straggler",
    ),
    "one arm 1.15 times slower in the second half of 24 rounds": (
        lambda rng: [_arm(noisy_records.rounds(rng, number=24), 1, lambda turn: 1.15 if turn > 11 else 1.0)],
        "arm_drift",
    ),
    "other processes take 5 % of the core of one rank, 24 rounds": (
        lambda rng: [_counted(rng, other_processes=0.05)],
        "other_load",
    ),
    "a hypervisor takes 4 % of the core of one rank, 24 rounds": (
        lambda rng: [_counted(rng, stolen=0.04)],
        "stolen_time",
    ),
    "clocks that fall by 12 % over 24 rounds": (lambda rng: [_counted(rng, clock_drop=0.12)], "clocks_fell"),
    "one of two launches 1.15 times slower in one arm": (
        lambda rng: [
            noisy_records.rounds(rng, repeat=0),
            _arm(noisy_records.rounds(rng, repeat=1), 1, lambda turn: 1.15),
        ],
        "launches_apart",
    ),
    "one of three repeats 1.3 times slower": (
        lambda rng: [_launch(rng, repeat=i, step_s=0.8 * (1.3 if i == 2 else 1.0)) for i in range(3)],
        "repeats_apart",
    ),
    "one repeat from another machine": (
        lambda rng: [_launch(rng), _launch(rng, repeat=1), _other_machine(_launch(rng, repeat=2))],
        "unequal_machines",
    ),
}


def record_findings(runs: int) -> Iterator[list[object]]:
    """Yield the false alarms of the rules over records, and their power."""
    clean: dict[str, Callable[[Rng], list[RunRecord]]] = {
        "clean: three repeats of a launch of one point": lambda rng: [_launch(rng, repeat=i) for i in range(3)],
        "clean: two launches of 24 rounds": lambda rng: [_counted(rng, i) for i in range(2)],
    }
    for name, make in clean.items():
        rules = _record_alarms(make, runs)
        named = ", ".join(f"{rule} {share(count, runs)}" for rule, count in rules.most_common())
        yield [name, named or f"none {share(0, runs)}"]
    for name, (make, rule) in CASES.items():
        yield [name, f"{rule} {share(_record_alarms(make, runs)[rule], runs)}"]


def _strong_and_weak(rng: Rng, factor: float) -> pd.DataFrame:
    """Return weak scaling of 7.0x on 8 ranks, strong scaling of 6.5x times a factor, with three repeats."""

    def noisy(value: float) -> float:
        return float(value * np.exp(rng.normal(0, 0.01)))

    rates = [row("images_per_s", noisy(v), n, repeat=i) for n, v in ((1, 100), (8, 700)) for i in range(3)]
    strong = {"batch": 8, "experiment": "strong_scaling"}
    stated = [(7.0, {}), (6.5 * factor, strong)]
    speedups = ((round(noisy(v) / noisy(1.0), 2), setting) for v, setting in stated)
    return table(*rates, *(row("speedup_throughput", v, 8, kind="stated", **setting) for v, setting in speedups))


def _two_devices(rng: Rng, gain: float) -> pd.DataFrame:
    """Return a P100 that is `gain` times as fast as a K80; by peak numbers it is 2.4 times or more."""
    rates = [float(v * np.exp(rng.normal(0, 0.03))) for v in (50, 50 * gain)]
    return table(*(row("images_per_s", v, 1, gpu=gpu) for v, gpu in zip(rates, ("K80", "P100"), strict=True)))


TABLES: dict[str, tuple[Callable[[Rng], pd.DataFrame], str]] = {
    "clean: strong scaling 0.93 of weak, noise 1 %": (lambda rng: _strong_and_weak(rng, 1.0), "strong_beats_weak"),
    "strong scaling 1.2 times weak, noise 1 %": (lambda rng: _strong_and_weak(rng, 1.3), "strong_beats_weak"),
    "clean: a P100 3.5 times a K80, noise 3 %": (lambda rng: _two_devices(rng, 3.5), "faster_device"),
    "a P100 1.2 times a K80, noise 3 %": (lambda rng: _two_devices(rng, 1.2), "faster_device"),
}


def table_power(runs: int) -> Iterator[list[object]]:
    """Yield false alarms and power of the rules that do not apply to a plain study."""
    for name, (make, rule) in TABLES.items():
        rng = np.random.default_rng(SEED)
        count = sum(any(f.severity != "note" for f in TABLE_RULES[rule](make(rng))) for _ in range(runs))
        yield [name, f"{rule} {share(count, runs)}"]


def main() -> None:
    help_text = "a line; each takes about a second"
    parser = options("audit_power", __doc__, runs=(200, "records and tables a line"), studies=(200, help_text))
    arguments = parser.parse_args()
    runs = arguments.runs
    for headers, rows in (
        (["records", "named with a warning or worse, share of studies"], record_findings(runs)),
        (["tables", "named with a warning or worse, share of tables"], table_power(runs)),
        (["studies in a file", "found, share of studies", "by"], study_power(cases(), arguments.studies)),
    ):
        show(rows, headers, end="\n\n")


if __name__ == "__main__":
    main()
