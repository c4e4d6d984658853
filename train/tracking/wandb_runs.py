"""W&B's runs: begin one, log rows and values, end it with its record; and their folders.

`results/<experiment>/wandb/` has the runs of an experiment, one folder each, whose name ends with the run's ID. Beside
a record, `wandb-run-id` says that its run is complete; `wandb-live-id` is the ID of the run that was begun while the
run was in progress.
"""

import os
import re
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from common import bounded_files as bounded
from record import intervals, rounds
from record import run_files as files
from record.disturbance import run_selection
from record.record_summary import HasUsage, usage_by_second
from record.schema import PHASES, Epoch, RunRecord
from train import predictions
from train.config.tracking_config import TrackingConfig

INIT_WITHIN_S = 30.0  # for the answer of a server
_START_WITHIN_S = 300.0  # for wandb's own process, on busy cores
MARKER_NAME, LIVE_NAME = "wandb-run-id", "wandb-live-id"
_ID, _ID_BYTES = re.compile("[0-9a-f]{16}"), 1000
AXES = ("rounds/round", "timed/step", "epochs/epoch", "usage/time_s")  # the axes of the rows with the same prefix

Row = dict[str, Any]


@dataclass(frozen=True)
class RunName:
    """The ID, labels and configuration of a run."""

    id: str
    config: Mapping[str, Any]
    host: str | None = None  # of rank 0
    commit: str | None = None  # of the code that was measured
    tags: tuple[str, ...] = ()
    notes: str = ""


def run_name(record: RunRecord, run_folder: Path, tracking: TrackingConfig) -> RunName:
    """Return the ID, labels and configuration of a record's run."""
    return RunName(
        id=run_id(record, run_folder),
        config=record.config,
        host=record.ranks[0].host if record.ranks else None,
        commit=record.environment.git_commit if record.environment else None,
        tags=(record.status, *(["cores_shared"] if record.cores_shared else []), *tracking.tags),
        notes="\n".join([*([tracking.notes] if tracking.notes else []), *record.notes]),
    )


def begin(wandb: Any, name: RunName, run_folder: Path, tracking: TrackingConfig, mode: str) -> Any:
    """Begin a run, named after its folder; it replaces a run with its ID. Raises OSError, and the errors of wandb."""
    folder, (_, point, experiment) = home(run_folder), run_folder.resolve().parents[:3]
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK):  # wandb would write to /tmp instead
        raise PermissionError(f"{folder} is not writable")
    for earlier in folder.glob(f"*-{name.id}"):
        shutil.rmtree(earlier, ignore_errors=True)
    run = wandb.init(
        id=name.id,
        project=tracking.project,
        entity=tracking.entity,
        group=tracking.group or experiment.name,
        job_type=point.name,  # W&B then groups the repeats of a point
        name=f"{point.name} {run_folder.name}",
        tags=name.tags,
        notes=name.notes,
        config=dict(name.config),
        settings=_settings(wandb, name, folder, mode),
    )
    for axis in AXES:
        run.define_metric(f"{axis.partition('/')[0]}/*", step_metric=axis)
        run.define_metric(axis, hidden=True)  # else it has a chart of itself over itself
    return run


def _settings(wandb: Any, name: RunName, folder: Path, mode: str) -> Any:
    """Return settings without facts about this machine or code: the record describes those of the measurement."""
    on = ("disable_git", "disable_code", "x_disable_stats", "x_disable_meta", "x_disable_machine_info")
    off = ("use_dot_wandb", "save_code", "symlink", "x_save_requirements")
    return wandb.Settings(
        mode=mode,
        init_timeout=INIT_WITHIN_S if mode == "online" else _START_WITHIN_S,
        root_dir=str(folder.parent),
        reinit="create_new",
        host=name.host,
        git_commit=name.commit,
        console="off",
        **dict.fromkeys(on, True),
        **dict.fromkeys(off, False),
    )


def update(run: Any, name: RunName) -> None:
    """Set the names and labels of a run that have changed."""
    if tuple(run.tags or ()) != name.tags:
        run.tags = name.tags
    if (run.notes or "") != name.notes:
        run.notes = name.notes
    run.config.update(dict(name.config), allow_val_change=True)


def complete(wandb: Any, run: Any, record: RunRecord, path: Path, rows: Sequence[Row]) -> None:
    """Log the values of a record in its run, end the run, and mark the record as having one.

    rows: those that the run does not have yet.
    """
    try:
        for row in rows:
            run.log(row)
        run.summary.update(summary(record))
        _log_predictions(wandb, run, path.parent, record)
        artifact = wandb.Artifact(f"run-record-{run.id}", type="run-record", metadata={"sha256": record.sha256})
        for file in (path, *map(path.with_name, record.attachments)):
            artifact.add_file(str(file), policy="immutable")  # records never change: they need not be copied
        run.log_artifact(artifact)
    finally:
        run.finish(exit_code=0 if record.status == "complete" else 1)
    files.write_file(path.with_name(MARKER_NAME), run.id.encode(), replace=True)


def _log_predictions(wandb: Any, run: Any, folder: Path, record: RunRecord) -> None:
    """Log the confusion matrix as W&B's chart, and a few images with their predicted classes."""
    if predictions.CONFUSION_NAME in record.attachments:
        rows = [list(row.values()) for row in predictions.read_rows(folder / predictions.CONFUSION_NAME)]
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
            for row in predictions.read_rows(folder / predictions.EXAMPLES_NAME)
        ]
        run.log({"validation/examples": examples})


@contextmanager
def wandb_module(folder: Path) -> Iterator[Any]:
    """Return a context with the wandb module, its caches in `folder`, and one service process for all runs."""
    kit_variables = {
        "WANDB_ERROR_REPORTING": "false",
        "WANDB_SILENT": "true",
        "WANDB_X_SERVICE_WAIT": str(_START_WITHIN_S),
        "WANDB_CACHE_DIR": str(folder / "cache"),
        "WANDB_DATA_DIR": str(folder / "cache"),
    }
    from unittest import mock  # here, as it takes a while to import

    with mock.patch.dict(os.environ, kit_variables):
        # A sweep's agent gives each run a new ID: each mirroring of a record would be another run.
        for name in ("WANDB_SWEEP_ID", "WANDB_SWEEP_PARAM_PATH"):
            os.environ.pop(name, None)
        import wandb  # takes half a second, and only this tracker needs it

        try:
            yield wandb
        finally:
            wandb.teardown()


def step_rows(record: RunRecord) -> list[Row]:
    """Return a row a timed step: its time on the slowest rank, in s, and its loss.

    A run that resumed training has the losses of the launches before it, but only its own times: the last ones.
    """
    times_s = [max(times) for times in zip(*(rank.step_times_s for rank in record.ranks), strict=False)]
    before = max(0, len(record.losses) - len(times_s)) if record.epochs else 0
    steps = zip_longest([None] * before + times_s, record.losses)
    return [
        _filled({"timed/step": step, "timed/step_time_s": time_s, "timed/loss": loss})
        for step, (time_s, loss) in enumerate(steps)
    ]


def round_rows(record: RunRecord) -> list[Row]:
    """Return a row a round: images/s of each arm, and 1 if the round counts, 0 if others disturbed it."""
    if not record.config.get("rounds"):
        return []
    counting, names = run_selection(record).counting, _arm_names(record)
    return [
        {"rounds/round": number, "rounds/counts": int(number in counting)}
        | {f"rounds/images_per_s_{names[arm]}": rate for arm, rate in rates.items()}
        for number, rates in enumerate(rounds.run_rates(record))
    ]


def _arm_names(record: RunRecord) -> list[str]:
    """Return the name of each arm as W&B's queries allow it: letters, digits and _."""
    labels = rounds.labels(record.config)
    return [re.sub(r"\W+", "_", labels[arm["name"]]) for arm in record.config["rounds"]]


def epoch_rows(epochs: Sequence[Epoch]) -> list[Row]:
    """Return a row an epoch: losses, accuracies (fractions), durations in s."""
    return [_filled({f"epochs/{key}": value for key, value in asdict(epoch).items()}) for epoch in epochs]


def usage_rows(ranks: Sequence[HasUsage]) -> list[Row]:
    """Return a row a second since the launch of the job: means over the ranks."""
    return [_filled({f"usage/{key}": value for key, value in asdict(row).items()}) for row in usage_by_second(ranks)]


def _filled(row: Row) -> Row:
    return {key: value for key, value in row.items() if value is not None}


def summary(record: RunRecord) -> dict[str, Any]:
    """Return the values that W&B lists: status, phases (s, of the slowest rank), and the record's summary."""
    facts: dict[str, Any] = {"status": record.status, "started_at": record.started_at, "job_s": record.job_s}
    if record.failure:
        facts["failure"] = record.failure.reason
    return record.summary | _rates(record) | phases([rank.phases_s for rank in record.ranks]) | facts


def _rates(record: RunRecord) -> dict[str, float]:
    """Return the typical images/s of each arm of a launch in rounds."""
    if not record.config.get("rounds"):
        return {}
    typical = zip(_arm_names(record), map(intervals.rate, rounds.arm_rates([record])), strict=True)
    return {f"images_per_s_{name}": rate.value for name, rate in typical if rate}


def phases(by_rank: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the seconds of each phase so far, of the slowest rank."""
    return {
        f"phases_s/{phase}": max(times)
        for phase in PHASES
        if (times := [phases_s[phase] for phases_s in by_rank if phase in phases_s])
    }


def home(run_folder: Path) -> Path:
    """Return the folder of all W&B runs of an experiment, beside <point>/<hash8>/r<repeat>; an absolute path."""
    return run_folder.resolve().parents[2] / "wandb"


def run_id(record: RunRecord, run_folder: Path) -> str:
    """Return the ID of a record's run: the same at each attempt, so that a record never has two."""
    return _kept_id(run_folder / LIVE_NAME) or record.sha256[:16]


def _kept_id(path: Path) -> str:
    """Return the ID of a run that is kept in a file; "" without one.

    The folder may be anybody's: as a pattern, "*" would select the runs of all records, to be removed.
    """
    try:
        text = bounded.read(path, _ID_BYTES).decode(errors="replace")
    except OSError:
        return ""
    return text if _ID.fullmatch(text) else ""


def begin_live(run_folder: Path) -> str:
    """Return the ID of the run of a launch that begins now, kept beside it. Raises OSError."""
    name = uuid.uuid4().hex[:16]
    # Whole, and first: this process may be killed at any time.
    files.write_file(run_folder / LIVE_NAME, name.encode(), replace=True)
    return name


def is_complete(run_folder: Path) -> bool:
    """Return whether the record in this folder has a complete run."""
    return bool(_kept_id(run_folder / MARKER_NAME))


def run_file(record_path: Path) -> Path | None:
    """Return the file of a record's complete run; None without one."""
    name = _kept_id(record_path.parent / MARKER_NAME)
    return next(home(record_path.parent).glob(f"*-{name}/run-{name}.wandb"), None) if name else None


def synced_marker(run_file: Path) -> Path:
    """Return the file by which `wandb sync` marks an uploaded run."""
    return run_file.with_suffix(".wandb.synced")


def is_synced(run_file: Path) -> bool:
    """Return whether a run was uploaded."""
    return synced_marker(run_file).exists()
