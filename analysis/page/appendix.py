"""The artifact appendix and a reviewer's report, as Markdown."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from analysis.appendix import Appendix, Evaluation, Experiment, code_of, label
from analysis.claims import Claim
from analysis.claims.checks import CHECKS
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


def _experiment_row(appendix: Appendix, number: int, one: Experiment) -> dict[str, str]:
    return {
        "": label(number, "E"),
        "command": f"`{one.command}`",
        "person": f"{one.human_minutes}",
        "machine": minutes(appendix, one.command),
        "needs": one.needs,
        "claims": ", ".join(appendix.claims_of(one.name)),
        "expected": one.expected or one.shows,
        "may differ": one.variation,
    }


def _output_row(number: int, one: Experiment) -> dict[str, str]:
    return {
        "": label(number, "E"),
        "figures": ", ".join(f"`{name}`" for name in one.figures),
        "computed by": ", ".join(f"`{place}`" for place in one.code),
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


def _check_rows(appendix: Appendix) -> list[dict[str, str]]:
    used = {claim.check: code_of(claim) for claim in appendix.claims}
    return [
        {"check": f"`{name}`", "rule": check.rule, "code": f"`{used[name]}`"}
        for name, check in CHECKS.items()
        if name in used
    ]


def appendix_text(appendix: Appendix, style: str) -> str:
    """Return the appendix in one of STYLES."""
    steps = [
        {"step": str(number), "command": f"`{one.command}`", "machine minutes": minutes(appendix, one.command),
         "makes": one.makes, "expected": one.expected}
        for number, one in enumerate(appendix.steps, 1)
    ]  # fmt: skip
    experiments = [_experiment_row(appendix, number, one) for number, one in enumerate(appendix.experiments)]
    measured = [
        {"command": f"`{command}`", "minutes": f"{one.minutes:.2g}", "on": one.date,
         "machine": f"{one.cores} cores of {one.cpu}", "commit": one.commit[:12]}
        for command, one in sorted(appendix.minutes.items())
    ]  # fmt: skip
    return _environment().get_template(f"appendix-{style}.md.j2").render(
        steps=steps,
        experiments=experiments,
        shows=[one.shows for one in appendix.experiments],
        outputs=[_output_row(number, one) for number, one in enumerate(appendix.experiments)],
        claims=[_claim_row(appendix, number, one) for number, one in enumerate(appendix.claims) if one.experiment],
        checks=_check_rows(appendix),
        measured=measured,
        table=markdown_table,
    )  # fmt: skip


def evaluation_text(evaluation: Evaluation) -> str:
    """Return a reviewer's report."""
    steps = [
        {"command": f"`{one.command}`", "result": one.outcome, "minutes": f"{one.minutes:.2g}",
         "missing in its output": "; ".join(one.missing)}
        for one in evaluation.steps
    ]  # fmt: skip
    rows = [
        {"": one.label, "claim": f"`{one.id}`: {one.hypothesis}",
         "result": ": ".join(filter(None, (one.outcome, one.why))),
         "archive": f"{one.stated}: {one.stated_numbers}", "here": f"{one.here}: {one.numbers}",
         "allowed": one.allowed}
        for one in sorted(evaluation.rows, key=lambda row: _ORDER[row.outcome])
    ]  # fmt: skip
    template = _environment().get_template("evaluation.md.j2")
    return template.render(evaluation=evaluation, steps=steps, rows=rows, table=markdown_table)


_ORDER = {"not reproduced": 0, "reproduced": 1, "not run": 2}
