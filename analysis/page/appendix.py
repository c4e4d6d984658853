"""The artifact appendix and a reviewer's report, as Markdown."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from analysis.appendix import Appendix, Evaluation, Experiment, label
from analysis.claims import Claim
from analysis.documents import markdown_table

STYLES = ("sc", "eurosys")
_FOLDER = Path(__file__).parent


def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(_FOLDER), undefined=StrictUndefined, keep_trailing_newline=True, trim_blocks=True,
        lstrip_blocks=True, autoescape=False,
    )  # fmt: skip


def minutes(appendix: Appendix, command: str) -> str:
    """Return the machine minutes of a command as text."""
    measured = appendix.minutes.get(command)
    if measured is None:
        return "-"
    return "below 1" if measured.minutes < 0.95 else f"{measured.minutes:.0f}"


def _experiment_row(appendix: Appendix, number: int, experiment: Experiment) -> dict[str, str]:
    return {
        "": label(number, "E"),
        "command": f"`{experiment.command}`",
        "person": f"{experiment.human_minutes}",
        "machine": minutes(appendix, experiment.command),
        "needs": experiment.needs,
        "claims": ", ".join(appendix.claims_of(experiment.name)),
        "expected": experiment.expected or experiment.shows,
        "may differ": experiment.variation,
    }


def _output_row(number: int, experiment: Experiment) -> dict[str, str]:
    return {
        "": label(number, "E"),
        "figures": ", ".join(f"`{name}`" for name in experiment.figures),
        "computed by": ", ".join(f"`{location}`" for location in experiment.code),
    }


def _claim_row(appendix: Appendix, number: int, claim: Claim) -> dict[str, str]:
    names = [experiment.name for experiment in appendix.experiments]
    return {
        "": label(number, "C"),
        "claim": f"`{claim.id}`",
        "hypothesis": claim.hypothesis,
        "decided by": label(names.index(claim.experiment), "E"),
        "expected verdict": appendix.expected_verdict(claim),
    }


def appendix_text(appendix: Appendix, style: str) -> str:
    """Return the appendix in one of STYLES."""
    steps = [
        {"step": str(number), "command": f"`{step.command}`", "machine minutes": minutes(appendix, step.command),
         "makes": step.makes, "expected": step.expected}
        for number, step in enumerate(appendix.steps, 1)
    ]  # fmt: skip
    experiments = [_experiment_row(appendix, number, e) for number, e in enumerate(appendix.experiments)]
    measured: dict[tuple[str, str, str], list[str]] = {}
    for command, took in sorted(appendix.minutes.items()):
        origin = (took.date, f"{took.cores} cores of {took.cpu}", took.commit[:12])
        measured.setdefault(origin, []).append(f"`{command}` {took.minutes:.2g}")
    return _environment().get_template(f"appendix-{style}.md.j2").render(
        steps=steps,
        experiments=experiments,
        shows=[experiment.shows for experiment in appendix.experiments],
        outputs=[_output_row(number, e) for number, e in enumerate(appendix.experiments)],
        claims=[_claim_row(appendix, number, c) for number, c in enumerate(appendix.claims) if c.experiment],
        measured=[
            {"on": date, "machine": machine, "commit": commit, "minutes": ", ".join(commands)}
            for (date, machine, commit), commands in sorted(measured.items())
        ],
        table=markdown_table,
    )  # fmt: skip


def evaluation_text(evaluation: Evaluation) -> str:
    """Return a reviewer's report."""
    steps = [
        {"command": f"`{step.command}`", "result": step.outcome, "minutes": f"{step.minutes:.2g}",
         "missing in its output": "; ".join(step.missing)}
        for step in evaluation.steps
    ]  # fmt: skip
    rows = [
        {"": row.label, "claim": f"`{row.id}`: {row.hypothesis}",
         "result": ": ".join(filter(None, (row.outcome, row.why))),
         "archive": f"{row.stated}: {row.stated_numbers}", "here": f"{row.here}: {row.numbers}",
         "allowed": row.allowed}
        for row in sorted(evaluation.rows, key=lambda row: _ORDER[row.outcome])
    ]  # fmt: skip
    template = _environment().get_template("evaluation.md.j2")
    return template.render(evaluation=evaluation, steps=steps, rows=rows, table=markdown_table)


_ORDER = {"not reproduced": 0, "reproduced": 1, "not run": 2}
