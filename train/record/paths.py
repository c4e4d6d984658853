"""Where a run's files are: results/<experiment>/<point>/<hash8>/r<repeat>[.<generation>]/."""

import re
from collections.abc import Iterator
from pathlib import Path

from train.record.record import RECORD_NAME, RecordError, RunRecord, load


def point_folder(results: Path, experiment: str, point: str, config_hash: str) -> Path:
    """Return the folder of all runs of one point in one configuration."""
    return results / experiment / point / config_hash[:8]


def run_folder(point: Path, repeat: int, generation: int) -> Path:
    """Return the folder of one run. The first generation carries no number: most runs have no second."""
    return point / (f"r{repeat}" if generation == 1 else f"r{repeat}.{generation}")


def checkpoints(run: Path) -> Path:
    """Return the folder of a run's checkpoints: beside its folder, where its next generation finds them."""
    return run.with_name(f"checkpoints-{run.name.split('.')[0]}")


def repeats(point: Path) -> list[int]:
    """Return the repeats of a point that have a folder, ascending."""
    return sorted({int(path.name[1:].partition(".")[0]) for path in point.glob("r*") if path.is_dir()})


def generations(point: Path, repeat: int) -> list[int]:
    """Return the generations of a repeat that have a folder, ascending."""
    matches = [re.fullmatch(rf"r{repeat}(?:\.(\d+))?", path.name) for path in point.glob(f"r{repeat}*")]
    return sorted(int(match[1] or 1) for match in matches if match)


def completed(point: Path, repeat: int) -> RunRecord | None:
    """Return the newest complete record of a repeat, or None if it is still to be measured."""
    return next(all_completed(point, repeat), None)


def all_completed(point: Path, repeat: int) -> Iterator[RunRecord]:
    """Yield the complete records of a repeat, the newest first."""
    for generation in reversed(generations(point, repeat)):
        try:
            record = load(run_folder(point, repeat, generation) / RECORD_NAME)
        except RecordError:
            continue  # the analysis reports it; here it only means that nothing was measured
        if record.status == "complete":
            yield record


def new_run(point: Path, repeat: int) -> tuple[Path, int]:
    """Make the folder of the next generation of a repeat, and give its number. Raises OSError."""
    generation = (generations(point, repeat) or [0])[-1] + 1
    folder = run_folder(point, repeat, generation)
    folder.mkdir(parents=True)
    return folder, generation
