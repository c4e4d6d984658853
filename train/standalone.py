"""The record of a run that no launcher started: rank 0 writes it, without the phase `exit`."""

import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from train.config.identity import config_hash, point_name, resolved
from train.config.schema import Config, ConfigError
from train.rank import placement
from train.record import parts, paths, predictions
from train.record.record import RECORD_NAME, dumps, write_atomically


def check_writable(results: Path) -> None:
    """Raise ConfigError where no record could be written below `results`: better now than after an hour."""
    try:
        results.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=results):
            pass
    except OSError as error:
        raise ConfigError(f"results={results}: cannot be written ({error.strerror}); give another folder") from error


def write_record(
    config: Config, everyone: list[parts.Part], first_line_at: float, answers: predictions.Predictions | None
) -> None:
    """Write it as the next repeat of its point, and say where.

    Args:
        config: of the run.
        everyone: the parts of all ranks, or rank 0's alone where it failed.
        first_line_at: when rank 0's program began, seconds since the epoch.
        answers: what the model answered at the end, if anything.
    """
    part = everyone[0]
    digest, point = config_hash(config), point_name(config)
    home = paths.point_folder(Path(config.results), config.experiment, point, digest)
    repeat = 0
    while paths.completed(home, repeat):
        repeat += 1
    folder, generation = paths.new_run(home, repeat)
    if answers:
        part.attachments = predictions.write(folder, answers)
    job_s = sum(part.rank.phases_s.values())
    record = parts.assemble(
        everyone,
        failure=None,
        identity={
            "experiment": config.experiment,
            "point": point,
            "repeat": repeat,
            "generation": generation,
            "config_hash": digest,
            "config": resolved(config),
            "command": ["python", "-m", "train", *sys.argv[1:]],
        },
        started_at=datetime.fromtimestamp(first_line_at, UTC).isoformat(timespec="seconds"),
        job_s=job_s,
        ended_at=0.0,
        cores_shared=placement.shared_on_a_host((other.rank.host, other.rank.cores) for other in everyone),
    )
    write_atomically(folder / RECORD_NAME, dumps(record))
    print(f"{folder / RECORD_NAME}: {record.summary or record.status}")
