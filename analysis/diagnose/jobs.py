"""Where the time of a whole job goes: launch, training, evaluation and checkpoints, from the phases of its ranks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import pandas as pd
from tabulate import tabulate

from analysis import documents, labels
from analysis.documents import Document, about, filled, number
from analysis.stats import repeats
from analysis.stats.number import Number
from analysis.stats.repeats import singles

Group = Literal["launch", "steps", "evaluation", "checkpoints", "exit"]
GROUPS: dict[Group, tuple[str, ...]] = {
    "launch": ("start", "import", "init", "data", "build", "broadcast", "first_step"),
    "steps": ("warm_up", "timed"),
    "evaluation": ("evaluate",),
    "checkpoints": ("checkpoint",),
    "exit": ("exit",),
}


@dataclass(frozen=True)
class Job:
    """The phases of the launches of one single point, in seconds."""

    model: str
    series: str  # a label that tells it from the other series of the model
    nodes: int
    batch_per_rank: int
    parts: Mapping[Group, Number]
    whole: Number


def jobs(local: pd.DataFrame) -> list[Job]:
    """Return the jobs of single points among the rows of one experiment, by model and nodes."""
    rows = local[local["kind"].eq("measured") & local["round"].isna()]
    rows = rows[rows["quantity"].str.startswith("phase_") | rows["quantity"].eq("job_s")]
    result = []
    for (model, _, nodes, batch), at in rows.groupby(["model", "series", "nodes", "batch_per_rank"], sort=False):
        runs = at.pivot_table(index="record", columns="quantity", values="value")
        sums = {
            name: runs.reindex(columns=[f"phase_{phase}_s" for phase in phases]).fillna(0.0).sum(axis=1)
            for name, phases in GROUPS.items()
        }
        parts = {name: _mean(values) for name, values in sums.items() if values.any()}
        label = ", ".join(labels.distinctions(at, rows, "batch_per_rank"))
        result.append(Job(str(model), label, int(str(nodes)), int(str(batch)), parts, _mean(runs["job_s"])))
    return result


def _mean(values: pd.Series) -> Number:
    return repeats.arithmetic_mean(singles(values.tolist()))


def table(jobs: Sequence[Job]) -> str:
    """Return the seconds of the parts of each job, and their share."""
    names = list(dict.fromkeys(name for job in jobs for name in job.parts))
    rows = [
        [labels.name(job.model), job.series, str(job.nodes), str(job.batch_per_rank), job.whole.text(".3g")]
        + [_cell(job, name) for name in names]
        for job in jobs
    ]
    headers = ["model", "series", "nodes", "batch\na rank", "job [s]", *(f"{name} [s]" for name in names)]
    if not any(job.series for job in jobs):
        headers, rows = [header for header in headers if header != "series"], [[row[0], *row[2:]] for row in rows]
    return tabulate(rows, headers=headers, disable_numparse=True)


def _cell(job: Job, name: Group) -> str:
    if name not in job.parts:
        return ""
    return f"{job.parts[name].text('.3g')}, {100 * job.parts[name].value / job.whole.value:.0f} %"


class JobPhases(Document):
    """The phases of the launches of one single point."""

    model: str
    series: Annotated[str, about("what distinguishes it from other series of its model")]
    nodes: int
    batch_per_rank: int
    job_s: Annotated[documents.Number, about("wall time of a job")]
    parts_s: Annotated[
        Mapping[Group, documents.Number],
        about(
            "its parts [s]: `launch` until the end of the first step, `steps` warm-up and timed, `evaluation`, "
            "`checkpoints`, `exit` after the last step"
        ),
    ]


def as_json(job: Job) -> JobPhases:
    """Return the phases of a job."""
    parts = {name: number(part) for name, part in job.parts.items()}
    return filled(JobPhases, job, job_s=number(job.whole), parts_s=parts)
