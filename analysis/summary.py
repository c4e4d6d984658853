"""`summary`: what one experiment of one's own measured, as a table, and where its figures are."""

import argparse
import sys
from pathlib import Path

import pandas as pd
from tabulate import tabulate

from analysis import allreduce, control, draw, equivalence, figures, metrics, plots, tables
from analysis.metrics import Estimate

_POINT = ["nodes", "ranks", "threads_per_rank", "batch_per_rank", "link_mbit_per_s"]


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("experiment", help="its name in conf/experiment, as weak_scaling")
    parser.add_argument("--draw", action="store_true", help="draw the figures that show it")
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder of one's own records")
    parser.add_argument("--out", type=Path, default=Path("figures"), help="folder to draw into")


def _words(e: Estimate) -> str:
    return f"{e.value:.4g}" + ("" if e.n == 1 else f" ± {e.half_width:.2g}")


def _link(mbit_per_s: float) -> str:
    return "no limit" if pd.isna(mbit_per_s) else f"{mbit_per_s:g}"


def _remarks(runs: pd.DataFrame) -> str:
    said = ["without Horovod"] if (runs["backend"] == "none").any() else []
    said += ["without allreduce"] if not said and not runs["allreduce"].all() else []
    said += ["shared cores: no measure of scaling"] if runs["cores_shared"].any() else []
    return "; ".join(said)


def rows(own: pd.DataFrame) -> pd.DataFrame:
    """One row a point, in the order of the models.

    Columns: model, what tells its series apart, nodes, ranks, threads and batch a rank, n, images/s with its 95 %
    interval; where the nodes of a series vary, speedup (efficiency) by throughput, wall time and job time; a note.
    A sweep over allreduces has the columns of `allreduce.rows`.
    """
    if own["quantity"].eq("allreduce_s").any():
        return allreduce.rows(own)
    rates = {by: metrics.rates(own, by) for by in ("throughput", "wall time", "job time")}
    runs = rates["throughput"]
    accuracy = own[own["quantity"] == "validation_accuracy"].sort_values("epoch").groupby("record")["value"].last()
    errors = own[own["quantity"] == "validation_mean_absolute_error"].sort_values("epoch")
    error = errors.groupby("record")["value"].last()
    limited = own["link_mbit_per_s"].notna().any()
    found = []
    for _, series in runs.groupby(["model", "series"], sort=False):
        scales = series["nodes"].nunique() > 1
        of_series = {by: rate[rate["series"] == series["series"].iloc[0]] for by, rate in rates.items()}
        curves = {
            by: metrics.curve(r["nodes"].tolist(), r["rate"].tolist()).set_index("ranks") for by, r in of_series.items()
        }
        for _, at in series.groupby(_POINT, dropna=False):
            nodes, ranks, threads, batch, link = (at[name].iloc[0] for name in _POINT)
            row: dict[str, object] = {
                "model": plots.name(at["model"].iloc[0]),
                "series": " ".join(plots.told_apart(series, runs)),
                "nodes": nodes,
                "ranks": ranks,
                "threads\na rank": threads,
                "batch\na rank": batch,
                "link\nMbit/s": _link(link) if limited else "",
                "n": len(at),
                "images/s": _words(metrics.estimate(at["rate"].tolist())),
            }
            for by, curve in curves.items() if scales else ():
                speedup, efficiency = curve["speedup"][nodes], curve["efficiency"][nodes]
                row[f"speedup (efficiency)\nby {by}"] = f"{speedup:.2f}x ({efficiency:.2f})"
            if (final := at["record"].map(accuracy).dropna()).size:
                row["validation\naccuracy"] = _words(metrics.estimate(final.tolist()))
            if (final := at["record"].map(error).dropna()).size:
                row["mean absolute\nerror [classes]"] = _words(metrics.estimate(final.tolist()))
            found.append(row | {"note": _remarks(at)})
    table = pd.DataFrame(found)
    kept = [column for column in table if not table[column].isin([""]).all()]
    return table[sorted(kept, key=lambda column: column == "note")]


def run(arguments: argparse.Namespace) -> int:
    """Print the table, draw on request, and say where the figures are; 1 where there is no complete run."""
    own = tables.own(arguments.results)
    for line in own.left_out:
        print(f"left out: {line}", file=sys.stderr)
    for line in own.failed:
        if Path(line).is_relative_to(arguments.results / arguments.experiment):
            print(f"failed: {line}", file=sys.stderr)
    shown = own.table[own.table["experiment"] == arguments.experiment]
    if shown.empty:
        print(f"no complete run of {arguments.experiment} in {arguments.results}", file=sys.stderr)
        return 1
    print(f"{arguments.experiment} on {'; '.join(shown['machine'].unique())}; ± is the 95 % interval over n repeats\n")
    if arguments.experiment == "equivalence":
        print(equivalence.summary(shown))
    else:
        print(tabulate(rows(shown).fillna(""), headers="keys", showindex=False, disable_numparse=True))
    if shown["quantity"].eq("allreduce_s").any():
        print(f"\ntime and bus bandwidth [GB/s] by message size, mean over launches\n\n{allreduce.by_size(shown)}")
    if emulated := control.words(shown):
        print(f"\n{emulated}\nimages: {plots.images(shown)}")
    if assumed := plots.assumed(shown):
        print("", *assumed, sep="\n")
    if arguments.draw:
        published = tables.published()
        entries = [entry for entry in figures.load().values() if not entry.points(published, shown).own.empty]
        drawn, _ = draw.draw(entries, published, own.table, arguments.out)
        if drawn:
            print("\nfigures:", *(f"  {arguments.out / id}.{{pdf,png,svg}}" for id in drawn), sep="\n")
    return 0
