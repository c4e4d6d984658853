"""Rules on how records were made: what a record says twice, what launches of one plan share, what a record lacks."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import astuple
from pathlib import Path
from typing import Any

from analysis.audit.compared_launches import ComparedLaunch
from analysis.audit.findings import EXPERIMENT_RULES, RECORD_RULES, finding, rule
from analysis.finding import Finding
from common.grouping import grouped
from record import this_kit
from record.recorded_config import flat
from record.schema import RunRecord

_MEANING = "Both were written by the same launch: one of them was changed afterwards."
# Settings that the launcher decides after the command.
_DECIDED_LATER = ("results", "threads_per_rank", "measure.budget_s", "measure.curve_budget_s")


@rule(RECORD_RULES)
def command_and_config(run: RunRecord, path: str) -> Iterator[Finding]:
    """Report a command line whose settings are not those of the configuration: one of them belongs to another run."""
    pairs = (word.lstrip("+").partition("=") for word in run.command if "=" in word and not word.startswith("-"))
    settings = {key: value for key, _, value in pairs if value not in ("", "null") and "${" not in value}
    configured = {key: value for key, value in flat(run.config).items() if not isinstance(value, list | Mapping)}
    for key, value in settings.items():
        stated = configured.get(key, configured.get(f"{key}.name"))
        commanded = _named(key, value) if isinstance(run.config.get(key), Mapping) else value
        if key not in _DECIDED_LATER and None not in (stated, commanded) and not _equal(str(commanded), stated):
            yield finding(path, "serious", f"{key}: {stated}", f"{value}, as its command says", None, _MEANING)


def _named(section: str, file: str) -> str | None:
    """Return the name that a file of conf/ gives its section, as that of model=alexnet_67; None without one here."""
    path = this_kit.ROOT / "conf" / section / f"{Path(file).name}.yaml"
    name = re.search(r"^name: *(\S+)", path.read_text(), re.M) if path.is_file() else None
    return name[1] if name else None


def _equal(text: str, stated: Any) -> bool:
    try:
        return float(text) == float(stated)
    except (TypeError, ValueError):
        return text.strip("'\"").lower() == str(stated).lower()


@rule(RECORD_RULES)
def names_and_settings(run: RunRecord, path: str) -> Iterator[Finding]:
    """Report a point or an arm whose name and settings differ: arms were exchanged, or a point was renamed."""
    named = [(run.point, dict(run.swept))]
    named += [(arm["name"], arm) for arm in run.config.get("rounds") or []]
    for name, settings in named:
        for key, value in settings.items():
            number = re.search(rf"(?:^|[-_]){re.escape(key)}(\d+(?:\.\d+)?)(?![\d.])", name)
            if number and isinstance(value, int | float) and float(number[1]) != value:
                yield finding(path, "serious", f"'{name}'", f"{key} {value:g} in its settings", None, _MEANING)
        if name.endswith("without-allreduce") and settings.get("allreduce"):
            yield finding(path, "serious", f"'{name}'", "an allreduce in its settings", None, _MEANING)


@rule(EXPERIMENT_RULES)
def unequal_models(runs: list[ComparedLaunch]) -> Iterator[Finding]:
    """Report launches of one model whose operations for an image, or whose gradients, differ from the rest."""

    def name_and_size(run: ComparedLaunch) -> tuple[str, int]:
        model = run.record.config.get("model") or {}
        return model.get("name", ""), model.get("image_size", 0)

    for (model, size), launches in grouped([run for run in runs if run.record.work], name_and_size).items():
        by_work = grouped(launches, lambda run: run.record.work and astuple(run.record.work))
        usual, *others = sorted(by_work.items(), key=lambda item: -len(item[1]))
        for work, deviating in others:
            stated = f"{model} at {size} pixels: {work}"
            meaning = "One model is one work: it was another model, or what the record says of it was changed."
            yield finding(deviating[0].path, "serious", stated, f"{usual[0]}, as elsewhere", None, meaning)


@rule(EXPERIMENT_RULES)
def one_plan(runs: list[ComparedLaunch]) -> Iterator[Finding]:
    """Report launches of one plan whose settings of a point, or of one arm, differ: one command makes a plan.

    Launches with the same position in the order belong to several plans, and are left out.
    """
    plans = grouped(runs, lambda run: (order := run.record.order) and (order.seed, order.runs))
    for launches in (launches for plan, launches in plans.items() if plan):
        if len({run.record.order.position for run in launches if run.record.order}) < len(launches):
            continue
        settings: dict[str, dict[str, list[str]]] = {}  # quantity -> value -> paths
        for run in launches:
            values = {f"the configuration of {run.record.point}": run.record.config_hash[:8]}
            values |= {f"the batch of a rank at {point}": str(batch) for point, batch in _batches(run.record).items()}
            for quantity, value in values.items():
                settings.setdefault(quantity, {}).setdefault(value, []).append(run.path)
        deviating: dict[str, Finding] = {}
        for quantity, by_value in settings.items():
            (usual, usual_paths), *others = sorted(by_value.items(), key=lambda item: -len(item[1]))
            for value, (path, *_) in others:
                meaning = "Both are of one plan, which one command made: one of them was changed afterwards."
                stated, follows = f"{quantity}: {value}", f"{usual}, as in {usual_paths[0]}"
                deviating.setdefault(path, finding(path, "serious", stated, follows, None, meaning))
        yield from deviating.values()


def _batches(run: RunRecord) -> dict[str, int]:
    """Return the batch of a rank at each point of a launch, by its swept values, its arm and its role."""
    alone = {"swept": run.swept, "arm": run.arm, "role": run.role, "batch_per_rank": run.config.get("batch_per_rank")}
    batches: dict[str, set[int]] = defaultdict(set)
    for arm in run.config.get("rounds") or [alone]:
        if arm.get("swept") and arm["batch_per_rank"]:
            role = "point" if arm["role"] == "base" else arm["role"]
            swept = ", ".join(f"{key}={value}" for key, value in arm["swept"].items())
            batches[f"{swept}, {arm.get('arm') or role}"].add(arm["batch_per_rank"])
    return {point: min(values) for point, values in batches.items() if len(values) == 1}


@rule(RECORD_RULES)
def missing_provenance(run: RunRecord, path: str) -> Iterator[Finding]:
    """Report a record without its origin: it cannot be repeated, and a difference of machines does not show."""
    environment = run.environment
    hosts = environment.hosts if environment else []
    parts = {
        "the command": run.command,
        "the time of its start": run.started_at,
        "the code (commit or digest)": run.source_digest or (environment and environment.git_commit),
        "the hosts": hosts and all(host.cpu_model and host.kernel for host in hosts),
        "how the hosts were set": environment and all(host.state for host in hosts),
        "the versions": run.program or (environment and environment.versions),
        "the variables": environment and environment.variables,
    }
    if missing := [name for name, value in parts.items() if not value]:
        meaning = "The launcher writes all of it. Whether machine and software were the same cannot be determined."
        yield finding(path, "warning", f"not in the record: {', '.join(missing)}", "all of it", None, meaning)
