"""Mirror finished run records to Weights & Biases. The JSON record is the source; nothing reads a mirror back.

Records are mirrored after all points of an experiment have been measured, never while a job runs.
`python -m train.tracking sync` uploads the mirrors afterwards.
"""

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from itertools import zip_longest
from pathlib import Path
from typing import Any

from train.config.schema import Tracking
from train.record import predictions, usage
from train.record.record import PHASES, RunRecord, find, load

MARKER_NAME = "wandb-run-id"  # file beside a mirrored record; holds the id of its W&B run

# Without a network wandb would retry for minutes. The user's environment overrides these.
_UPLOAD_LIMITS = {
    "WANDB_X_GRAPHQL_RETRY_MAX": "3",
    "WANDB_X_GRAPHQL_RETRY_WAIT_MAX_SECONDS": "4",
    "WANDB_X_FILE_STREAM_RETRY_MAX": "5",
    "WANDB_X_FILE_TRANSFER_RETRY_MAX": "5",
}


class SyncError(Exception):
    """Some runs were not uploaded; the message says how many, where they are and what to do."""


def mirror(record_paths: Sequence[Path], tracking: Tracking) -> list[str]:
    """Mirror each record that has no mirror yet; returns a line for each that failed.

    A mirror that fails is not a failed measurement: the others are still made, no record is changed, and the next call
    tries again. To be called after all points are measured, from one process.
    """
    return TRACKERS[tracking.name](record_paths, tracking)


def mirror_to_wandb(record_paths: Sequence[Path], tracking: Tracking) -> list[str]:
    """Write one offline W&B run per record into `results/<experiment>/wandb/`. No network, no login; see `mirror`."""
    waiting = [path.resolve() for path in record_paths if not (path.parent / MARKER_NAME).exists()]
    if not waiting:
        return []
    failures = []
    with _wandb(_mirror_folder(waiting[0])) as wandb:
        for path in waiting:
            try:
                _write_run(wandb, load(path), path, tracking)
            except Exception as error:  # whatever W&B raises, the other records are mirrored
                failures.append(f"{path}: not mirrored to W&B: {error}")
    return failures


def mirror_nowhere(record_paths: Sequence[Path], tracking: Tracking) -> list[str]:
    """Do nothing."""
    return []


TRACKERS: dict[str, Callable[[Sequence[Path], Tracking], list[str]]] = {
    "wandb": mirror_to_wandb,
    "none": mirror_nowhere,
}


def sync(results: Path) -> int:
    """Upload every mirror below the folder `results` that is not uploaded yet; returns how many.

    Only this part of the kit connects to a W&B server. Raises SyncError if a mirror was not uploaded.
    """
    waiting = [file for path in find(results) if (file := _run_file(path)) and not _is_synced(file)]
    if not waiting:
        return 0
    command = [sys.executable, "-m", "wandb", "sync", "-n", "16", *map(str, waiting)]
    environment = {"WANDB_ERROR_REPORTING": "false", **_UPLOAD_LIMITS, **os.environ}
    # Without a terminal wandb reports a missing API key; with one it would wait for input.
    subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, check=False)
    left = [file for file in waiting if not _is_synced(file)]  # wandb's exit status is 0 also without a network
    if left:
        raise SyncError(
            f"{len(left)} of {len(waiting)} W&B runs were not uploaded (wandb says why above); nothing is lost, "
            f"the first is in {left[0].parent}. Log in with `wandb login` or set WANDB_API_KEY, check that this "
            f"machine reaches {environment.get('WANDB_BASE_URL', 'the W&B server')}, and run `make wandb-sync` again"
        )
    return len(waiting)


def history(record: RunRecord) -> list[dict[str, float]]:
    """The rows that W&B plots: one per timed step (s, of the slowest rank), per epoch, per usage sample."""
    step_times_s = [max(times) for times in zip(*(rank.step_times_s for rank in record.ranks), strict=False)]
    steps = [
        {"timed/step": step, "timed/step_time_s": time_s, "timed/loss": loss}
        for step, (time_s, loss) in enumerate(zip_longest(step_times_s, record.losses))
    ]
    epochs = [{f"epochs/{key}": value for key, value in asdict(epoch).items()} for epoch in record.epochs]
    used = [{f"usage/{key}": value for key, value in asdict(use).items()} for use in usage.over_time(record.ranks)]
    return [{key: value for key, value in row.items() if value is not None} for row in steps + epochs + used]


def summary(record: RunRecord) -> dict[str, Any]:
    """The values that W&B lists: status, phases (s, of the slowest rank), and the record's summary."""
    phases_s = {
        f"phases_s/{phase}": max(times)
        for phase in PHASES
        if (times := [rank.phases_s[phase] for rank in record.ranks if phase in rank.phases_s])
    }
    facts: dict[str, Any] = {"status": record.status, "started_at": record.started_at, "job_s": record.job_s}
    if record.failure:
        facts["failure"] = record.failure.reason
    return record.summary | phases_s | facts


def run_id(record: RunRecord) -> str:
    """The id of the record's W&B run: the same at each attempt, so that a record never has two runs."""
    return record.sha256[:16]


def _log_predictions(wandb: Any, run: Any, folder: Path, record: RunRecord) -> None:
    """Log the confusion matrix as W&B's chart, and a few images with their predicted classes."""
    if predictions.CONFUSION_NAME in record.attachments:
        rows = [list(row.values()) for row in predictions.read(folder / predictions.CONFUSION_NAME)]
        table = wandb.Table(
            columns=["Actual", "Predicted", "nPredictions"], data=[[a, b, int(count)] for a, b, count in rows]
        )
        fields = {name: name for name in ("Actual", "Predicted", "nPredictions")}
        run.log({"validation/confusion": wandb.plot_table("wandb/confusion_matrix/v1", table, fields)})
    if predictions.EXAMPLES_NAME in record.attachments:
        examples = [
            wandb.Image(
                str(folder / row["image"]),
                caption=f"{row['label']}: predicted {row['predicted']} ({float(row['probability']):.2f})",
            )
            for row in predictions.read(folder / predictions.EXAMPLES_NAME)
        ]
        run.log({"validation/examples": examples})


def _write_run(wandb: Any, record: RunRecord, path: Path, tracking: Tracking) -> None:
    """Write the offline run of one record, and then its marker."""
    folder = _mirror_folder(path)
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK):  # wandb would write to /tmp instead
        raise PermissionError(f"{folder} is not writable")
    for unfinished in folder.glob(f"*-{run_id(record)}*"):
        shutil.rmtree(unfinished)
    run = wandb.init(
        id=run_id(record),
        project=tracking.project,
        entity=tracking.entity,
        group=record.experiment,
        job_type=record.point,  # W&B then groups the repeats of a point
        name=f"{record.point} r{record.repeat}" + (f" generation {record.generation}" if record.generation > 1 else ""),
        tags=[record.status, *(["cores_shared"] if record.cores_shared else [])],
        notes="\n".join(record.notes),
        config=record.config,
        settings=_settings(wandb, record, folder),
    )
    try:
        _log(wandb, run, record, path)
    finally:
        run.finish(exit_code=0 if record.status == "complete" else 1)
    temporary = path.with_name(f".{MARKER_NAME}")
    temporary.write_text(run_id(record))
    temporary.replace(path.with_name(MARKER_NAME))


def _settings(wandb: Any, record: RunRecord, folder: Path) -> Any:
    """Offline, and without anything about this machine or code: the record describes those of the measurement."""
    return wandb.Settings(
        mode="offline",
        root_dir=str(folder.parent),
        use_dot_wandb=False,
        reinit="create_new",
        host=record.ranks[0].host if record.ranks else None,
        disable_git=True,
        save_code=False,
        disable_code=True,
        console="off",
        symlink=False,
        x_disable_stats=True,
        x_disable_meta=True,
        x_disable_machine_info=True,
        x_save_requirements=False,
    )


def _log(wandb: Any, run: Any, record: RunRecord, path: Path) -> None:
    """Log the rows, the summary, the predictions, and the record file with its attachments as an artifact."""
    for axis in ("timed/step", "epochs/epoch", "usage/time_s"):
        run.define_metric(f"{axis.partition('/')[0]}/*", step_metric=axis)
    for row in history(record):
        run.log(row)
    run.summary.update(summary(record))
    _log_predictions(wandb, run, path.parent, record)
    artifact = wandb.Artifact(f"run-record-{run_id(record)}", type="run-record", metadata={"sha256": record.sha256})
    for file in (path, *map(path.with_name, record.attachments)):
        artifact.add_file(str(file), policy="immutable")  # records never change: they need not be copied
    run.log_artifact(artifact)


@contextmanager
def _wandb(folder: Path) -> Iterator[Any]:
    """The wandb module, with one service process for all runs, which ends afterwards, and its caches in `folder`."""
    ours = {
        "WANDB_ERROR_REPORTING": "false",
        "WANDB_SILENT": "true",
        "WANDB_CACHE_DIR": str(folder / "cache"),
        "WANDB_DATA_DIR": str(folder / "cache"),
    }
    before = {key: os.environ.get(key) for key in ours}
    os.environ.update(ours)
    try:
        import wandb  # takes half a second, and only this tracker needs it

        try:
            yield wandb
        finally:
            wandb.teardown()
    finally:
        for key, value in before.items():
            if value is None:
                os.environ.pop(key)
            else:
                os.environ[key] = value


def _mirror_folder(record_path: Path) -> Path:
    return record_path.parents[3] / "wandb"  # results/<experiment>/wandb, beside <point>/<hash8>/r<repeat>/record.json


def _run_file(record_path: Path) -> Path | None:
    marker = record_path.parent / MARKER_NAME
    if not marker.exists():
        return None
    name = marker.read_text()
    return next(_mirror_folder(record_path.resolve()).glob(f"*-{name}/run-{name}.wandb"), None)


def _is_synced(run_file: Path) -> bool:
    return run_file.with_suffix(".wandb.synced").exists()  # written by `wandb sync`


def main(arguments: Sequence[str] | None = None) -> None:
    """Upload mirrors from the command line."""
    parser = argparse.ArgumentParser(prog="python -m train.tracking", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    upload = commands.add_parser("sync", help="upload the W&B runs that are not uploaded yet")
    upload.add_argument("results", nargs="?", type=Path, default=Path("results"), help="the results folder")
    options = parser.parse_args(arguments)
    if not options.results.is_dir():
        parser.error(f"{options.results}: no such folder; give the results folder of a measurement")
    try:
        print(f"W&B runs uploaded: {sync(options.results)}")
    except SyncError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
