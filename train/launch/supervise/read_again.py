"""Read the rates of a user's program from the logs of earlier launches: another pattern needs no new measurement."""

import shlex
import shutil
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from record import clock, ledger, parts, protocol
from record import run_files as files
from record.schema import RECORD_NAME, PrintedRate, RecordError, RunRecord, load
from train.config import printed
from train.config.checks import ConfigError
from train.config.identity import resolved, values
from train.config.printed import RateError, Reading, printed_rate
from train.config.run_config import RunConfig
from train.launch.plan.planned_runs import PlannedPoint, Run
from train.launch.supervise.one_run import commands, save
from train.program import reading


def read_again(points: Iterable[PlannedPoint]) -> int:
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
        rate = _rate(log.read_text(errors="replace"), earlier, reading(run.point.config))
    except RateError as error:
        raise ConfigError(f"{log}: {error}\nNothing was measured; FORCE=1 runs the command again") from error
    made, generation = files.new_run(run.home, run.repeat)
    for path in (log, *protocol.part_paths(folder)):
        shutil.copyfile(path, made / path.name)
    for path, (rank, _, _) in protocol.part_processes(made).items():
        parts.PartWriter(path, failure=None, finished=True, **({} if rank else {"printed": rate}))
    assignment = protocol.read_assignment(folder)
    identity = assignment.identity | {"generation": generation, **commands(run.point)}
    assignment = replace(assignment, config=values(run.point.config), identity=identity)
    protocol.write_assignment(made, assignment)
    end = parts.JobEnd(
        started_at=datetime.fromisoformat(earlier.started_at).timestamp(),
        job_s=earlier.job_s,
        cores_shared=earlier.cores_shared,
        ledger_line=ledger.begin(made, run.repeat, generation),
    )
    save(made, assignment, run.point.config, parts.read_parts(made), end)
    return True


def proposals_by_clock(points: Iterable[PlannedPoint]) -> list[str]:
    """Return the settings by which a number can be read at every size, that differs and changes with running times.

    None unless launches of two sizes ended well without a number. A setting that finds several takes the last.
    """
    launches = []
    for point in points:
        record, program = _newest(Run(point, 0)), point.config.program
        if record and record.program and program and not record.printed:
            log = protocol.rank_log(files.run_folder(Run(point, 0).home, 0, record.generation), 0)
            if record.program.exit_status == program.exit_status:
                launches.append((log.read_text(errors="replace"), record, point.config))
    proposed = [printed.proposals(text, " ".join(record.command)) for text, record, _ in launches[:1] if launches[1:]]
    return [setting for settings in proposed for setting in settings if _moves_with_the_clock(setting, launches)]


def _moves_with_the_clock(setting: str, launches: Iterable[tuple[str, RunRecord, RunConfig]]) -> bool:
    name, _, pattern = setting.replace("'", "").partition("=")
    records = []
    for text, record, config in launches:
        how = replace(reading(config), rate=None, time=None, pick="last", each_rank=False)
        how = replace(how, rate=pattern) if name == "RATE" else replace(how, time=pattern, unit=how.unit or "s")
        try:
            records.append(replace(record, printed=_rate(text, record, how)))
        except RateError:
            return False
    return clock.moves_with_the_clock(filter(None, map(clock.program_launch, records)))


def _rate(text: str, record: RunRecord, how: Reading) -> PrintedRate:
    """Return the rate in the log of a launch. Raises RateError."""
    assert record.program is not None
    use = record.program.cores
    return printed_rate(text, how, use.wall_s if use else record.job_s, shlex.join(record.program.command))


def _newest(run: Run) -> RunRecord | None:
    """Return the newest readable record of a launch."""
    for folder in reversed(files.runs(run.home).get(run.repeat, [])):
        try:
            return load(folder / RECORD_NAME)
        except RecordError:
            continue
    return None
