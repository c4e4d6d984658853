"""A measurement beside what it is compared with: a published number, another folder, earlier sessions, a reference.

Each of these sources gives two numbers, and the ratios of them that are allowed. The verdict is made here.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from msgspec import structs

from analysis.compare.provenance import Difference
from analysis.documents import Document, NumberField, PValue, about, filled
from analysis.stats import Number, unknown
from analysis.stats.verdict import Bounds, RatioVerdict, Verdict, holm, leaning, ratio_verdict

ComparisonVerdict = Literal[RatioVerdict, "for information"]
EQUAL = Bounds(1.0, 1.0)
# Quantities that are larger where something is worse.
COSTS = frozenset({"wall_s", "job_s", "allreduce_s", "epochs_to_stable"})


class AllowedRange(Document):
    """The ratios that are allowed."""

    low: Annotated[float | None, about("the lowest; null: no bound")]
    high: Annotated[float | None, about("the highest; null: no bound")]


class Comparison(Document):
    """A measured number beside what it is compared with."""

    experiment: str
    model: Annotated[str, about("empty: allreduce alone, or all models together")]
    point: Annotated[str, about("nodes or another size, and what else distinguishes it; empty: the whole curve")]
    quantity: str
    unit: str
    source: Annotated[str, about("what it is compared with: a report, folder, session or reference, and its setting")]
    on: Annotated[str, about("where it was measured: folder, session, setting or machine")]
    reference: Annotated[NumberField, about("what it is compared with; of a report, its interval is what rounds to it")]
    measured: NumberField
    ratio: Annotated[NumberField, about("measured / reference")]
    allowed: Annotated[AllowedRange, about("of the ratio")]
    p_value: PValue
    verdict: Annotated[ComparisonVerdict, about("on what was measured; equality needs a margin, to be shown")]
    note: Annotated[str, about("why it is not judged, or what else there is to know")]


class Comparisons(Document):
    """Measurements beside one source."""

    comparisons: Annotated[Sequence[Comparison], about("each number that both have")]
    differences: Annotated[Sequence[Difference], about("in what the runs of two sets differ")]
    unpaired: Annotated[Sequence[str], about("what was measured without a counterpart, or cannot be paired")]
    reference_alone: Annotated[Sequence[str], about("published numbers without a counterpart")]
    left_out: Annotated[Sequence[str], about("records that are not trusted or failed, and why")]
    placements: Annotated[Sequence[str], about("where each curve is among published ones (docs/atlas.md)")]


Judged = tuple[Comparison, Verdict | None]  # None: for information, or the number is not valid


def compared(
    reference: Number, measured: Number, ratio: Number, allowed: Bounds | None, why_not: str, note: str, **about: str
) -> Judged:
    """Return a comparison, and the verdict on it alone: whether the ratio is allowed.

    allowed: None for information. why_not: why it is not judged. about: the texts of `Comparison`.
    """
    judged = leaning(ratio, allowed) if allowed and ratio.has_interval and not why_not else None
    if judged and allowed == EQUAL and judged.outcome != "outside":  # an equality is not shown
        judged = Verdict("undecided", "across a bound", p=1.0)
    missing = ": ".join(filter(None, ("no interval", ratio.no_interval))) if allowed and not ratio.has_interval else ""
    return Comparison(
        **about,
        reference=reference,
        measured=measured,
        ratio=ratio,
        allowed=filled(AllowedRange, allowed or Bounds()),
        p_value=None,
        verdict="not decidable" if allowed else "for information",
        note="; ".join(filter(None, (note, why_not or missing))),
    ), judged


def corrected(rows: Sequence[Judged]) -> list[Comparison]:
    """Return comparisons with the verdicts that stay when so many are made at once (Holm)."""
    verdicts = iter(holm([judged for _, judged in rows if judged]))
    with_verdicts = [(row, next(verdicts) if judged else None) for row, judged in rows]
    return [
        structs.replace(row, p_value=v.p, verdict=ratio_verdict(v, row.quantity in COSTS)) if v else row
        for row, v in with_verdicts
    ]


def comparisons(rows: Sequence[Judged], **lists: Sequence[Any]) -> Comparisons:
    """Return comparisons with corrected verdicts; lists: those that are not empty of the others of `Comparisons`."""
    others = {name: lists.get(name, []) for name in Comparisons.__struct_fields__ if name != "comparisons"}
    return Comparisons(comparisons=corrected(rows), **others)


def over(measured: Number, reference: Number) -> Number:
    """Return measured / reference, where the reference lies between two ends for certain, as a rounded number does."""
    if not reference.low > 0:
        return unknown(measured.value / reference.value if reference.value else float("nan"), measured.n)

    def ends(level: float) -> tuple[float, float]:
        low, high = measured.ends(level)
        return low / reference.high, high / reference.low

    value = measured.value / reference.value
    return Number(value, ends, measured.n, measured.variation, no_interval=measured.no_interval)
