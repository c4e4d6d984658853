"""The diagnosis of an experiment as a JSON document."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from analysis.diagnose.comparison import ComparedArm, Comparison, sentences
from analysis.diagnose.jobs import Group, Job
from analysis.diagnose.paired_windows import Curve
from analysis.diagnose.split import LOSSES, Part, Split
from analysis.diagnose.text import sentences as curve_sentences
from analysis.diagnose.verdicts import LargestLoss, SlowestRank
from analysis.documents import Document, Number, about, filled, number


class DiagnosedPoint(Document):
    """A point of a curve: its step, and the parts of it as docs/diagnose.md explains them."""

    nodes: int
    ranks: int
    batch_per_rank: int
    measured_s: Annotated[Number, about("time of a step")]
    parts_s: Annotated[Mapping[Part, Number], about("its parts; they add up")]
    efficiency_throughput: Annotated[Number, about("over the fewest nodes")]
    efficiency_without: Annotated[Mapping[Part, Number], about("efficiency without one part, at most")]
    exchange_alone_s: Annotated[Number | None, about("exchange of the gradients by itself; null: not measured")]
    exchange_hidden_s: Annotated[Number | None, about("hidden part of it; below zero: more is exposed")]


class LateRank(Document):
    """The rank whose gradients are ready last."""

    host: str
    rank: int
    cores: Annotated[Sequence[int], about("that it is bound to")]
    behind_s: Annotated[Number, about("delay of its gradients after the mean of the others")]
    certain: Annotated[bool, about("whether the delay is significant")]
    others_fraction: Annotated[float | None, about("share of its cores that other processes took")]
    stolen_fraction: Annotated[float | None, about("share that the hypervisor took")]


class DiagnosedCurve(Document):
    """The diagnosis of one curve."""

    model: str
    series: Annotated[str, about("what distinguishes it from other series of its model")]
    machine: str
    design: Literal["rounds", "launches"]
    launches: int
    points: Annotated[Sequence[DiagnosedPoint], about("from the fewest nodes on")]
    largest_loss: Annotated[Part | None, about("at the largest point; null: not decided")]
    candidates: Annotated[Sequence[Part], about("losses that could be the largest")]
    slowest_rank: Annotated[LateRank | None, about("of the largest point")]
    sentences: Annotated[Sequence[str], about("the diagnosis in words")]


class ArmDifference(Document):
    """How the steps of one arm differ from those of the base."""

    arm: str
    longer_s: Annotated[Number, about("step of the arm less that of the base in the same repeat")]
    parts_longer_s: Annotated[Mapping[Part, Number], about("by part; they add up")]
    differs: Annotated[bool, about("whether the interval of `longer_s` excludes zero")]
    reasons: Annotated[Sequence[Part], about("significant parts of the same sign that may be the largest")]


class ArmComparison(Document):
    """The arms of one model on as many nodes."""

    model: str
    machine: str
    nodes: Annotated[int, about("of all arms; their parts are in `curves`")]
    base: Annotated[str, about("the arm that the others are compared with")]
    others: Annotated[Sequence[ArmDifference], about("in the order of their names")]
    sentences: Annotated[Sequence[str], about("in words, with what the records do not show")]


class JobPhases(Document):
    """The phases of the launches of one single point."""

    model: str
    series: Annotated[str, about("what distinguishes it from other series of its model")]
    nodes: int
    batch_per_rank: int
    job_s: Annotated[Number, about("wall time of a job")]
    parts_s: Annotated[
        Mapping[Group, Number],
        about(
            "its parts [s]: `launch` until the end of the first step, `steps` warm-up and timed, `evaluation`, "
            "`checkpoints`, `exit` after the last step"
        ),
    ]


class Diagnosis(Document):
    """The parts of the steps and jobs of an experiment."""

    curves: Annotated[Sequence[DiagnosedCurve], about("one for each series of a model")]
    comparisons: Annotated[Sequence[ArmComparison], about("of arms in separate launches, by model and nodes")]
    jobs: Annotated[Sequence[JobPhases], about("one for each point with separate launches")]


def curve_json(curve: Curve, splits: Sequence[Split], loss: LargestLoss, slowest: SlowestRank | None) -> DiagnosedCurve:
    """Return one curve: its points, the largest loss of the largest point, the slowest rank, the sentences."""
    return filled(
        DiagnosedCurve,
        curve,
        design="rounds" if curve.in_rounds else "launches",
        launches=len(curve.records),
        points=[_point(split) for split in splits],
        largest_loss=loss.part,
        candidates=loss.candidates,
        slowest_rank=slowest and filled(LateRank, slowest, behind_s=number(slowest.behind)),
        sentences=list(curve_sentences(curve, splits[-1], loss, slowest)),
    )


def _point(split: Split) -> DiagnosedPoint:
    return DiagnosedPoint(
        nodes=split.point.nodes,
        ranks=split.ranks,
        batch_per_rank=split.point.batch_per_rank,
        measured_s=number(split.measured),
        parts_s={part: number(split.part(part)) for part in split.parts},
        efficiency_throughput=number(split.efficiency),
        efficiency_without={part: number(split.efficiency_without(part)) for part in split.parts if part in LOSSES},
        exchange_alone_s=number(split.exchange_alone) if split.exchange_alone else None,
        exchange_hidden_s=number(split.hidden) if split.hidden else None,
    )


def comparison_json(comparison: Comparison) -> ArmComparison:
    """Return a comparison: by how much each arm is longer than the base, and the sentences."""
    return ArmComparison(
        model=comparison.curve.model,
        machine=comparison.curve.machine,
        nodes=comparison.nodes,
        base=comparison.curve.arm,
        others=[_difference(arm) for arm in comparison.others],
        sentences=list(sentences(comparison)),
    )


def _difference(arm: ComparedArm) -> ArmDifference:
    parts = {part: number(longer) for part, longer in arm.parts.items()}
    return filled(ArmDifference, arm, arm=arm.curve.arm, longer_s=number(arm.longer), parts_longer_s=parts)


def job_json(job: Job) -> JobPhases:
    """Return the phases of a job."""
    parts = {name: number(part) for name, part in job.parts.items()}
    return filled(JobPhases, job, job_s=number(job.whole), parts_s=parts)
