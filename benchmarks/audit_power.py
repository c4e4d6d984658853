"""What the rules of the audit find, and what they allege of what is clean: edits of records, faults of studies, noise.

    python -m benchmarks.audit_power [--runs 200]

Prints the tables of docs/audit.md. Each line counts simulated records or studies whose truth is known.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from tabulate import tabulate

from analysis.audit import findings, series
from analysis.audit.finding import Finding
from analysis.table.checks.every import contradictions
from tests.helpers import noisy_records, record_edits, studies
from train.record.record import RunRecord

Rng = np.random.Generator
SEED = 14


def left_out(run: RunRecord) -> bool:
    """Whether the table leaves the record out: it contradicts itself, or lacks what each record has."""
    try:
        return bool(contradictions(run))
    except (LookupError, TypeError, ValueError, ZeroDivisionError):
        return True


def edits(runs: int) -> Iterator[list[object]]:
    """For each field, how many single edits of it by 5 % to ten times are found; first those of clean records."""
    rng = np.random.default_rng(SEED)
    made = {kind: [make(rng) for _ in range(runs)] for kind, make in noisy_records.KINDS.items()}
    for kind, of_kind in made.items():
        yield [f"clean: {kind}", len(of_kind), f"{np.mean([left_out(run) for run in of_kind]):.3f}"]
    for field in (*record_edits.MADE_FROM, *record_edits.OTHERS):
        found = [
            left_out(edited)
            for of_kind in made.values()
            for run in of_kind[: max(1, runs // 10)]
            for _ in range(10)
            if (edited := record_edits.edit(run, field, rng))
        ]
        yield [field.name, len(found), f"{np.mean(found):.2f}"]


def _alleged(study_of: Callable[[Rng], object], runs: int, path: Path) -> tuple[Counter[str], int]:
    """How often each rule fires with a warning or worse over so many studies, and in how many of them any does."""
    rng, rules, any_of = np.random.default_rng(SEED), Counter[str](), 0
    for _ in range(runs):
        found, _ = findings.of_file(studies.write(study_of(rng), path))  # type: ignore[arg-type]
        names = {finding.rule for finding in found if finding.severity != "note"}
        rules.update(names)
        any_of += bool(names)
    return rules, any_of


TRUTHS = {
    "noise 1 %, one run a point": studies.Truth(),
    "noise 3 %, one run a point": studies.Truth(noise=0.03),
    "noise 1 %, three repeats": studies.Truth(repeats=3),
    "noise 3 %, three repeats": studies.Truth(noise=0.03, repeats=3),
    "noise 1 %, ideal scaling, three repeats": studies.Truth(repeats=3, kept=1.0),
}


def of_studies(runs: int) -> Iterator[list[object]]:
    """False alarms on clean studies, and for each fault how often one of its rules names it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.csv"
        for name, truth in TRUTHS.items():
            rules, any_of = _alleged(lambda rng, truth=truth: studies.clean(rng, truth), runs, path)
            named = ", ".join(f"{rule} {count / runs:.3f}" for rule, count in rules.most_common()) or "none"
            yield [f"clean: {name}", f"{any_of / runs:.3f}", named]
        for name, (_, expected) in studies.FAULTS.items():
            for truth in (studies.Truth(noise=0.01), studies.Truth(noise=0.03, repeats=3)):
                rules, _ = _alleged(lambda rng, n=name, t=truth: studies.faulty(rng, n, t), runs, path)
                found = max(rules[rule] for rule in expected) / runs
                label = f"{name}; noise {truth.noise:.0%}, n={truth.repeats}"
                yield [label, f"{found:.2f}", ", ".join(rule for rule in expected if rules[rule])]


def _records(run_of: Callable[[Rng], list[RunRecord]], runs: int) -> Counter[str]:
    """How often each rule over records fires with a warning or worse."""
    rng, rules = np.random.default_rng(SEED), Counter[str]()
    for _ in range(runs):
        made = [(str(place), run) for place, run in enumerate(run_of(rng))]
        found: list[Finding] = list(series.audit(made))
        rules.update({finding.rule for finding in found if finding.severity != "note"})
    return rules


def _scaled(run: RunRecord, which: Callable[[int, int], float]) -> RunRecord:
    """The record with each timed step of each rank, and what it computed, times a factor of rank and step."""
    for rank in run.ranks:
        for name in ("step_times_s", "compute_times_s"):
            setattr(rank, name, [v * which(rank.rank, i) for i, v in enumerate(getattr(rank, name))])
    return run


def _launch(rng: Rng, **more: object) -> RunRecord:
    return noisy_records.launch(rng, steps=30, **more)  # type: ignore[arg-type]


def _arm(run: RunRecord, place: int, factor: Callable[[int], float]) -> RunRecord:
    """The record in rounds with the windows of one arm times a factor of the round."""
    for rank in run.ranks:
        for window in rank.windows:
            if window.arm == place:
                window.window_s *= factor(window.round)
    return run


def _other_machine(run: RunRecord) -> RunRecord:
    assert run.environment
    run.environment.hosts[0].cpu_model = "another CPU"
    return run


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
    "one of two launches 1.15 times slower in one arm": (
        lambda rng: [
            noisy_records.rounds(rng, repeat=0),
            _arm(noisy_records.rounds(rng, repeat=1), 1, lambda turn: 1.15),
        ],
        "launches_apart",
    ),
    "one repeat from another machine": (
        lambda rng: [_launch(rng), _launch(rng, repeat=1), _other_machine(_launch(rng, repeat=2))],
        "unequal_machines",
    ),
}


def of_records(runs: int) -> Iterator[list[object]]:
    """False alarms of the rules over records on clean ones, and their power."""
    clean: dict[str, Callable[[Rng], list[RunRecord]]] = {
        "clean: three repeats of a launch of one point": lambda rng: [_launch(rng, repeat=i) for i in range(3)],
        "clean: two launches of 24 rounds": lambda rng: [
            noisy_records.rounds(rng, number=24, repeat=i) for i in range(2)
        ],
    }
    for name, made in clean.items():
        rules = _records(made, runs)
        yield [name, ", ".join(f"{rule} {count / runs:.3f}" for rule, count in rules.most_common()) or "none"]
    for name, (made, rule) in CASES.items():
        yield [name, f"{rule} {_records(made, runs)[rule] / runs:.2f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200, help="records or studies a line")
    runs = parser.parse_args().runs
    for headers, rows in (
        (["single edits of records", "edits", "found"], edits(runs)),
        (["records", "named with a warning or worse, share of studies"], of_records(runs)),
        (["studies in a file", "found, share of studies", "by"], of_studies(runs)),
    ):
        print(tabulate(rows, headers, tablefmt="github", disable_numparse=True), end="\n\n")


if __name__ == "__main__":
    main()
