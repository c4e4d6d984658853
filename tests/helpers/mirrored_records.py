"""Records to mirror to W&B, and readers of W&B's offline files."""

import json
from pathlib import Path
from typing import Any

from record.schema import Epoch, Rank, RunRecord, dumps
from tests.helpers.bare_record import bare_record
from train.config.tracking_config import TrackingConfig

WANDB = TrackingConfig(name="wandb", project="scaling", entity=None, sync=False)


def rank(number: int, step_times_s: list[float], timed_s: float) -> Rank:
    phases_s = {"start": 0.5, "timed": timed_s}
    return Rank(number, number, 0, "node-a", [number], None, phases_s, [9.0], step_times_s, 1)


def run_record(**changes: Any) -> RunRecord:
    fields: dict[str, Any] = {
        "point": "resnet50-nodes2",
        "repeat": 1,
        "config_hash": "0123456789abcdef",
        "config": {"model": {"name": "resnet50", "image_size": 224}, "nodes": 2, "cores": [0, 1], "global_batch": None},
        "started_at": "2026-11-20T10:00:00+00:00",
        "command": ["python", "-m", "train"],
        "job_s": 12.5,
        "ranks": [rank(0, [0.25, 0.5], 0.75), rank(1, [0.375, 0.125], 0.625)],
        "losses": [2.0, 1.5],
        "epochs": [Epoch(1, 2, 4.0, 1.75, 0.25), Epoch(2, 2, 3.5, 1.25, 0.5, 1.0, 0.625)],
        "notes": ["first note", "second note"],
        "summary": {"images_per_s": 42.5},
    }
    return bare_record(**fields | changes)


def save_record(results: Path, record: RunRecord) -> Path:
    path = results / record.experiment / record.point / record.config_hash[:8] / f"r{record.repeat}" / "record.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(dumps(record))
    return path


def run_files(results: Path) -> list[Path]:
    return sorted(results.glob("*/wandb/offline-run-*/run-*.wandb"))


def only(messages: list[Any], kind: str) -> Any:
    (result,) = [getattr(message, kind) for message in messages if message.WhichOneof("record_type") == kind]
    return result


def items(updates: Any) -> dict[str, Any]:
    return {update.key or "/".join(update.nested_key): json.loads(update.value_json) for update in updates}


def history(messages: list[Any]) -> list[dict[str, Any]]:
    rows = [items(message.history.item) for message in messages if message.HasField("history")]
    return [{key: value for key, value in row.items() if not key.startswith("_")} for row in rows]
