"""The power and the false alarms of the audit's rules: on disturbed records, and on faults of studies.

    python -m benchmarks.audit_power [--runs 200] [--studies 200]

docs/audit.md has the results. Each line counts simulated records or studies whose truth is known; in brackets is the
95 % interval of the share (Clopper and Pearson).
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from analysis import audit
from analysis.audit import user_table_rules
from analysis.audit.audited_table import AuditedTable
from analysis.audit.findings import TABLE_RULES
from analysis.stats.repeats import proportion
from analysis.user_table import table_contract
from benchmarks.common import Rng, in_parallel, options, show
from benchmarks.faulty_studies import FAULTS, Truth, clean, faulty
from record.schema import RunRecord
from tests.helpers import noisy_records

SEED = 14


def share(count: int, total: int) -> str:
    """Return a share with its 95 % interval."""
    low, high = proportion(count, total).interval
    return f"{count / total:.3f} ({low:.3f} to {high:.3f})"


Case = tuple[str, str, Truth]  # name, fault ("": none), truth


def cases() -> list[Case]:
    """Return clean studies, then each fault in two kinds of study."""
    truths = [Truth(noise, repeats) for repeats in (1, 3) for noise in (0.01, 0.03)] + [Truth(0.01, 3, 1.0)]
    result = [(f"clean: noise {t.noise:.0%}, n={t.repeats}, {t.per_doubling:.0%} kept", "", t) for t in truths]
    faults = [(fault, truth) for fault in FAULTS for truth in (Truth(0.01), Truth(0.03, 3))]
    return result + [(f"{fault}; noise {t.noise:.0%}, n={t.repeats}", fault, t) for fault, t in faults]


def _study_alarms(fault: str, truth: Truth, runs: int) -> tuple[Counter[str], int]:
    """Return how often each rule fires with a warning or worse over so many studies, and in how many any does.

    On clean studies these are all rules, on faulty ones those that can see the fault.
    """
    rng, fired, alarms = np.random.default_rng(SEED), Counter[str](), 0
    rules = FAULTS[fault][1] if fault else tuple(TABLE_RULES)
    with tempfile.NamedTemporaryFile(suffix=".csv") as file:
        for _ in range(runs):
            study = faulty(rng, fault, truth) if fault else clean(rng, truth)
            study.to_csv(file.name, index=False)
            audited = AuditedTable(user_table_rules.tidy_study(table_contract.read_table(Path(file.name)))[0])
            names = {f.rule for rule in rules for f in TABLE_RULES[rule](audited) if f.severity != "note"}
            fired.update(sorted(names))
            alarms += bool(names)
    return fired, alarms


def study_power(selection: Sequence[Case], runs: int) -> Iterator[list[object]]:
    """Yield the false alarms on clean studies, and how often a rule of each fault finds it."""
    names, faults, truths = zip(*selection, strict=True)
    results = in_parallel(_study_alarms, faults, truths, [runs] * len(names))
    for name, (rules, alarms) in zip(names, results, strict=True):
        named = ", ".join(f"{rule} {count / runs:.3f}" for rule, count in rules.most_common()) or "none"
        yield [name, share(alarms, runs), named]


def _scaled(run: RunRecord, factor: Callable[[int, int], float]) -> list[RunRecord]:
    """Multiply each timed step of each rank, and its time of computing, by a factor of rank and step."""
    for rank in run.ranks:
        for name in ("step_times_s", "compute_times_s"):
            setattr(rank, name, [v * factor(rank.rank, i) for i, v in enumerate(getattr(rank, name))])
    return [run]


def _launch(rng: Rng, repeat: int = 0, step_s: float = 0.8) -> RunRecord:
    return noisy_records.launch(rng, steps=30, repeat=repeat, step_s=step_s)


def _arm(run: RunRecord, factor: Callable[[int], float]) -> RunRecord:
    """Multiply the windows of the second arm by a factor of the round."""
    for window in (window for rank in run.ranks for window in rank.windows if window.arm == 1):
        window.window_s *= factor(window.round)
    return run


def _one_from_another_machine(rng: Rng) -> list[RunRecord]:
    runs = [_launch(rng, repeat) for repeat in range(3)]
    assert runs[2].environment
    runs[2].environment.hosts[0].cpu_model = "another CPU"
    return runs


def _counted(rng: Rng, repeat: int = 0, **shares: float) -> RunRecord:
    return noisy_records.with_counters(rng, noisy_records.rounds(rng, number=24, repeat=repeat), **shares)


# What is simulated, and the rule that should find it; clean records have none.
RECORDS: dict[str, tuple[Callable[[Rng], list[RunRecord]], str]] = {
    "clean: three repeats of a launch of one point": (lambda rng: [_launch(rng, i) for i in range(3)], ""),
    "clean: two launches of 24 rounds": (lambda rng: [_counted(rng, i) for i in range(2)], ""),
    "first 3 of 30 steps 1.15 times longer":
        (lambda rng: _scaled(_launch(rng), lambda rank, i: 1.15 if i < 3 else 1.0), "warm_up_drift"),
    "2 of 30 steps 3 times longer, on the last rank":
        (lambda rng: _scaled(_launch(rng), lambda rank, i: 3.0 if rank == 1 and i in (9, 19) else 1.0),
         "step_outliers"),
    "one rank computes 1.3 times longer":
        (lambda rng: _scaled(_launch(rng), lambda rank, i: 1.3 if rank == 1 else 1.0), "straggler"),
    "one arm 1.15 times slower in the second half of 24 rounds":
        (lambda rng: [_arm(noisy_records.rounds(rng, number=24), lambda turn: 1.15 if turn > 11 else 1.0)],
         "arm_drift"),
    "other processes take 5 % of the core of one rank, 24 rounds":
        (lambda rng: [_counted(rng, other_processes=0.05)], "other_load"),
    "a hypervisor takes 4 % of the core of one rank, 24 rounds":
        (lambda rng: [_counted(rng, stolen=0.04)], "stolen_time"),
    "clocks that fall by 12 % over 24 rounds": (lambda rng: [_counted(rng, clock_drop=0.12)], "clocks_fell"),
    "one of two launches 1.15 times slower in one arm":
        (lambda rng: [noisy_records.rounds(rng), _arm(noisy_records.rounds(rng, repeat=1), lambda turn: 1.15)],
         "launches_apart"),
    "one of three repeats 1.3 times slower":
        (lambda rng: [_launch(rng, i, 1.04 if i == 2 else 0.8) for i in range(3)], "repeats_apart"),
    "one repeat from another machine": (_one_from_another_machine, "unequal_machines"),
}  # fmt: skip


def record_power(runs: int) -> Iterator[list[object]]:
    """Yield the false alarms of the rules over records, and their power: findings with a warning or worse."""
    for name, (make, rule) in RECORDS.items():
        rng, rules = np.random.default_rng(SEED), Counter[str]()
        for _ in range(runs):
            findings = audit.run_findings([(str(index), run) for index, run in enumerate(make(rng))])
            rules.update(sorted({finding.rule for finding in findings if finding.severity != "note"}))
        named = [rule] if rule else [name for name, _ in rules.most_common()]
        yield [name, ", ".join(f"{each} {share(rules[each], runs)}" for each in named) or f"none {share(0, runs)}"]


def main() -> None:
    help_text = "a line; each takes about a second"
    parser = options("audit_power", __doc__, runs=(200, "records a line"), studies=(200, help_text))
    arguments = parser.parse_args()
    show(record_power(arguments.runs), ["records", "named with a warning or worse, share of studies"], end="\n\n")
    show(study_power(cases(), arguments.studies), ["studies in a file", "found, share of studies", "by"])


if __name__ == "__main__":
    main()
