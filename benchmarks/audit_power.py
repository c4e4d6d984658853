"""What the rules of the audit find, and what they allege of what is clean: edits of records, faults of studies, noise.

    python -m benchmarks.audit_power [--runs 200] [--studies 200] [--records FOLDER...]

With folders of real records it also edits those, and cuts them short as a smaller budget would have: clean variants.
Prints the tables of docs/audit.md. Each line counts simulated records or studies whose truth is known; in brackets the
95 % interval of the share (Clopper and Pearson).
"""

from __future__ import annotations

import copy
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd

from analysis import audit
from analysis.audit import user_tables
from analysis.audit.findings import RECORD_RULES, TABLE_RULES, Finding
from analysis.stats.repeats import proportion
from analysis.study import Study
from analysis.table.checks import contradictions
from analysis.table.checks.check import CHECKS
from analysis.user_table import table as user_table
from benchmarks.common import Rng, options, show
from benchmarks.faults import record_attacks, record_edits, studies, study_edits
from tests.helpers import noisy_records
from tests.helpers.tidy_rows import row, table
from train.record.record import RunRecord

SEED = 14


def share(found: int, of: int) -> str:
    """A share with the 95 % interval of what was counted."""
    low, high = proportion(found, of).interval
    return f"{found / of:.3f} ({low:.3f} to {high:.3f})"


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
        yield [f"clean: {kind}", len(of_kind), share(sum(map(left_out, of_kind)), len(of_kind))]
    for field in (*record_edits.MADE_FROM, *record_edits.OTHERS):
        found = [
            left_out(edited)
            for of_kind in made.values()
            for run in of_kind[: max(1, runs // 10)]
            for _ in range(10)
            if (edited := record_edits.edit(run, field, rng))
        ]
        yield [field.name, len(found), share(sum(found), len(found))]


def copied(runs: int) -> Iterator[list[object]]:
    """For each kind of copy within a record, how many are found."""
    rng = np.random.default_rng(SEED)
    made = [make(rng) for make in noisy_records.KINDS.values() for _ in range(runs)]
    for name, again in record_edits.COPIES.items():
        found = [left_out(edited) for run in made if (edited := again(run, rng))]
        yield [name, len(found), share(sum(found), len(found))]


_AGAINST_ATTACKS = {*CHECKS, *(rule for attack in record_attacks.ATTACKS.values() for rule in attack.rules)}


def detections(name: str, folders: int) -> int:
    """In how many folders of records a rule that can see this attack fires; where none can, any that sees another.

    With a warning or worse, unless a note counts too.
    """
    rng, found = np.random.default_rng(SEED), 0
    attack = record_attacks.ATTACKS.get(name)
    can_see = set(attack.rules if attack else ()) or _AGAINST_ATTACKS
    for _ in range(folders):
        with tempfile.TemporaryDirectory() as folder:
            record_attacks.write(record_attacks.attacked(name, rng), Path(folder))
            all_found = audit.launch_findings(Study(Path(folder)))
        fired = {one.rule for one in all_found if one.severity != "note" or (attack and attack.as_note)}
        found += bool(fired & can_see)
    return found


def attacks(folders: int) -> Iterator[list[object]]:
    """False alarms on folders of records as the launcher leaves them, and for each attack how often it is found."""
    with ProcessPoolExecutor() as pool:
        names = (*record_attacks.INNOCENT, *record_attacks.ATTACKS)
        for name, job in {name: pool.submit(detections, name, folders) for name in names}.items():
            rules = record_attacks.ATTACKS[name].rules if name in record_attacks.ATTACKS else ()
            by = ", ".join(rules) or ("any of these" if name in record_attacks.INNOCENT else "none of these")
            yield [name, share(job.result(), folders), by]


def _alleged(fault: str, truth: studies.Truth, runs: int) -> tuple[Counter[str], int]:
    """How often each rule fires with a warning or worse over so many studies, and in how many of them any does.

    Of a clean study all rules, of one with a fault those that can see it.
    """
    rng, fired, any_of = np.random.default_rng(SEED), Counter[str](), 0
    rules = studies.FAULTS[fault][1] if fault else tuple(TABLE_RULES)
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(runs):
            study = studies.faulty(rng, fault, truth) if fault else studies.clean(rng, truth)
            made, _ = user_tables.read(user_table.read(studies.write(study, Path(folder) / "study.csv")))
            names = {f.rule for rule in rules for f in TABLE_RULES[rule](made) if f.severity != "note"}
            fired.update(names)
            any_of += bool(names)
    return fired, any_of


TRUTHS = {
    "noise 1 %, one run a point": studies.Truth(),
    "noise 3 %, one run a point": studies.Truth(noise=0.03),
    "noise 1 %, three repeats": studies.Truth(repeats=3),
    "noise 3 %, three repeats": studies.Truth(noise=0.03, repeats=3),
    "noise 1 %, ideal scaling, three repeats": studies.Truth(repeats=3, kept=1.0),
}


Case = tuple[str, str, studies.Truth]  # its name, the fault ("": none), what is true


def cases() -> list[Case]:
    """Clean studies, then each fault in two kinds of study."""
    found = [(f"clean: {name}", "", truth) for name, truth in TRUTHS.items()]
    for fault in studies.FAULTS:
        for truth in (studies.Truth(noise=0.01), studies.Truth(noise=0.03, repeats=3)):
            found.append((f"{fault}; noise {truth.noise:.0%}, n={truth.repeats}", fault, truth))
    return found


def study_power(of: Sequence[Case], runs: int) -> Iterator[list[object]]:
    """False alarms on clean studies, and for each fault how often one of its rules names it."""
    with ProcessPoolExecutor() as pool:
        jobs = [pool.submit(_alleged, fault, truth, runs) for _, fault, truth in of]
        for (name, _, _), job in zip(of, jobs, strict=True):
            rules, found = job.result()
            named = ", ".join(f"{rule} {count / runs:.3f}" for rule, count in rules.most_common()) or "none"
            yield [name, share(found, runs), named]


def _records(run_of: Callable[[Rng], list[RunRecord]], runs: int) -> Counter[str]:
    """How often each rule over records fires with a warning or worse."""
    rng, rules = np.random.default_rng(SEED), Counter[str]()
    for _ in range(runs):
        made = [(str(place), run) for place, run in enumerate(run_of(rng))]
        found: list[Finding] = list(audit.run_findings(made))
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
    """False alarms of the rules over records on clean ones, and their power."""
    clean: dict[str, Callable[[Rng], list[RunRecord]]] = {
        "clean: three repeats of a launch of one point": lambda rng: [_launch(rng, repeat=i) for i in range(3)],
        "clean: two launches of 24 rounds": lambda rng: [_counted(rng, i) for i in range(2)],
    }
    for name, made in clean.items():
        rules = _records(made, runs)
        named = ", ".join(f"{rule} {share(count, runs)}" for rule, count in rules.most_common())
        yield [name, named or f"none {share(0, runs)}"]
    for name, (made, rule) in CASES.items():
        yield [name, f"{rule} {share(_records(made, runs)[rule], runs)}"]


def _strong_and_weak(rng: Rng, factor: float) -> pd.DataFrame:
    """Weak scaling of 7.0x on 8 ranks, strong scaling of 6.5x times a factor; three repeats of each throughput."""

    def noisy(value: float) -> float:
        return float(value * np.exp(rng.normal(0, 0.01)))

    rates = [row("images_per_s", noisy(v), n, repeat=i) for n, v in ((1, 100), (8, 700)) for i in range(3)]
    strong = {"batch": 8, "experiment": "strong_scaling"}
    stated = [(7.0, {}), (6.5 * factor, strong)]
    speedups = ((round(noisy(v) / noisy(1.0), 2), of) for v, of in stated)
    return table(*rates, *(row("speedup_throughput", v, 8, kind="stated", **of) for v, of in speedups))


def _two_devices(rng: Rng, gain: float) -> pd.DataFrame:
    """One P100 that is `gain` times as fast as one K80; by peak numbers it is 2.4 times or more."""
    rates = [float(v * np.exp(rng.normal(0, 0.03))) for v in (50, 50 * gain)]
    return table(*(row("images_per_s", v, 1, gpu=gpu) for v, gpu in zip(rates, ("K80", "P100"), strict=True)))


TABLES: dict[str, tuple[Callable[[Rng], pd.DataFrame], str]] = {
    "clean: strong scaling 0.93 of weak, noise 1 %": (lambda rng: _strong_and_weak(rng, 1.0), "strong_beats_weak"),
    "strong scaling 1.2 times weak, noise 1 %": (lambda rng: _strong_and_weak(rng, 1.3), "strong_beats_weak"),
    "clean: a P100 3.5 times a K80, noise 3 %": (lambda rng: _two_devices(rng, 3.5), "faster_device"),
    "a P100 1.2 times a K80, noise 3 %": (lambda rng: _two_devices(rng, 1.2), "faster_device"),
}


def table_power(runs: int) -> Iterator[list[object]]:
    """False alarms and power of the rules that a plain study cannot show."""
    for name, (made, rule) in TABLES.items():
        rng = np.random.default_rng(SEED)
        found = sum(any(f.severity != "note" for f in TABLE_RULES[rule](made(rng))) for _ in range(runs))
        yield [name, f"{rule} {share(found, runs)}"]


def _alarms(launches: list[RunRecord]) -> set[str]:
    """The rules that fire with a warning or worse on the launches of one experiment, or contradict one of them."""
    found = audit.run_findings([(f"launch {place}", run) for place, run in enumerate(launches)])
    within = {one.rule for run in launches for one in contradictions(run)}
    return within | {one.rule for one in found if one.severity != "note"}


def power_rows(folders: Sequence[Path], runs: int) -> Iterator[list[object]]:
    """On real launches: false alarms of the rules that see edits, on clean variants; then what is found of edits.

    An edit is found where a rule fires that does not fire before. Variants end after a random launch, and launches in
    rounds after a random round, as with a smaller budget.
    """
    experiments: dict[str, list[RunRecord]] = {}
    paths: dict[str, list[str]] = {}
    for path, run in Study(*folders).records.items():
        if run.status == "complete":
            experiment = str(Path(path).parents[3])  # its folder in the results
            experiments.setdefault(experiment, []).append(run)
            paths.setdefault(experiment, []).append(path)
    before = {name: _alarms(launches) for name, launches in experiments.items()}
    sees = {*CHECKS, *(rule for _, rules in study_edits.EDITS.values() for rule in rules)}
    rng, names, alarmed = np.random.default_rng(SEED), [*experiments], 0
    for _ in range(runs):
        launches = copy.deepcopy(experiments[names[int(rng.integers(len(names)))]])
        launches = launches[: int(rng.integers(1, len(launches) + 1))]
        for run in launches:
            count = len({number for number, _ in study_edits.windows_of(run)})
            if count > 1:
                study_edits.cut_by_its_budget(run, int(rng.integers(1, count)), rng)
        alarmed += bool(_alarms(launches) & sees)
    beside = [any(_beside(*of)) for name in names for of in zip(experiments[name], paths[name], strict=True)]
    yield ["clean variants", runs, share(alarmed, runs), "any of these", f"{sum(beside)} of {len(beside)} records"]
    for name, (edit, _) in study_edits.EDITS.items():
        rng, found, tried, rules = np.random.default_rng(SEED), 0, 0, Counter[str]()
        with_files = 0
        for _ in range(20 * runs):
            experiment = names[int(rng.integers(len(names)))]
            launches = copy.deepcopy(experiments[experiment])
            if edit(launches, rng):
                new = _alarms(launches) - before[experiment]
                tried, found = tried + 1, found + bool(new)
                rules.update(new)
                with_files += any(any(_beside(*of)) for of in zip(launches, paths[experiment], strict=False))
            if tried >= max(1, runs // 10):
                break
        if tried:
            by = ", ".join(rule for rule, _ in rules.most_common(3)) or "none"
            yield [name, tried, share(found, tried), by, f"{with_files} of {tried}"]


def _beside(run: RunRecord, path: str) -> Iterator[Finding]:
    """What the files beside a record say against it."""
    for rule in ("record_and_parts", "record_and_assignment"):
        yield from RECORD_RULES[rule](run, path)


def main() -> None:
    runs_help = "records and tables a line; a quarter as many folders"
    parser = options("audit_power", __doc__, runs=(200, runs_help), studies=(200, "a line; each takes about a second"))
    parser.add_argument("--records", type=Path, nargs="+", help="folders of real records, to edit those alone")
    arguments = parser.parse_args()
    runs = arguments.runs
    if arguments.records:
        headers = ["edits of real launches", "studies", "found", "by", "with the files beside them"]
        show(power_rows(arguments.records, runs), headers)
        return
    for headers, rows in (
        (["single edits of records", "edits", "found"], edits(runs)),
        (["measurements copied within a record", "records", "found"], copied(runs)),
        (["attacks on a folder of records", "found with a warning or worse", "by"], attacks(max(1, runs // 4))),
        (["records", "named with a warning or worse, share of studies"], record_findings(runs)),
        (["tables", "named with a warning or worse, share of tables"], table_power(runs)),
        (["studies in a file", "found, share of studies", "by"], study_power(cases(), arguments.studies)),
    ):
        show(rows, headers, end="\n\n")


if __name__ == "__main__":
    main()
