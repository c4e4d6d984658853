"""Read the rates of a user's program from the logs of earlier launches: another pattern needs no new measurement."""

import shlex
import shutil
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from record import clock, ledger, parts, protocol
from record import run_files as files
from record.parts import JobEnd, PartWriter
from record.schema import RECORD_NAME, RecordError, RunRecord, load
from train.config.checks import ConfigError
from train.config.identity import resolved, values
from train.config.printed import RateError, printed_rate
from train.launch.plan.runs import Point, Run
from train.launch.supervise.one_run import commands, save
from train.program import reading


def read_again(points: Iterable[Point]) -> int:
    """Return how many launches of these points were read again. Raises ConfigError, OSError as `_read_again`."""
    runs = [Run(point, 0) for point in points if point.config.program]
    return sum(_read_again(Run(run.point, repeat)) for run in runs for repeat in files.runs(run.home))


def _read_again(run: Run) -> bool:
    """Write a record of the next generation if a launch ended well and its rate was read in another way.

    Raises ConfigError if the present patterns find no rate in its log, OSError.
    """
    config, earlier = resolved(run.point.config), _newest(run)
    if earlier is None or earlier.program is None or earlier.program.exit_status != config["program"]["exit_status"]:
        return False
    if all(earlier.config["program"].get(key) == config["program"][key] for key in (*clock.READING, "confirmed")):
        return False
    folder = files.run_folder(run.home, run.repeat, earlier.generation)
    log = protocol.rank_log(folder, 0)
    try:
        use, command = earlier.program.cores, shlex.join(earlier.program.command)
        text, running_s = log.read_text(errors="replace"), use.wall_s if use else earlier.job_s
        rate = printed_rate(text, reading(run.point.config), running_s, command)
    except RateError as error:
        raise ConfigError(f"{log}: {error}\nNothing was measured; FORCE=1 runs the command again") from error
    made, generation = files.new_run(run.home, run.repeat)
    for path in (log, *protocol.part_paths(folder)):
        shutil.copyfile(path, made / path.name)
    for path, (rank, _, _) in protocol.part_processes(made).items():
        PartWriter(path, failure=None, finished=True, **({} if rank else {"printed": rate}))
    assignment = protocol.read_assignment(folder)
    identity = assignment.identity | {"generation": generation, **commands(run.point)}
    assignment = replace(assignment, config=values(run.point.config), identity=identity)
    protocol.write_assignment(made, assignment)
    end = JobEnd(
        started_at=datetime.fromisoformat(earlier.started_at).timestamp(),
        job_s=earlier.job_s,
        cores_shared=earlier.cores_shared,
        ledger_line=ledger.begin(made, run.repeat, generation),
    )
    save(made, assignment, run.point.config, parts.by_file(made), end)
    return True


def _newest(run: Run) -> RunRecord | None:
    """Return the newest readable record of a launch."""
    for folder in reversed(files.runs(run.home).get(run.repeat, [])):
        try:
            return load(folder / RECORD_NAME)
        except RecordError:
            continue
    return None
