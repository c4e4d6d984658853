"""A user's own command, its placeholders, and the file that holds it.

`python -m train.config.program FILE` writes a first file, with comments.
"""

import os
import re
import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any

from common import bounded_files as bounded
from common.terminal import show
from record.this_kit import ROOT
from train.config import quoted
from train.config.checks import Rule, allow

PICKED = ("last", "median", "mean", "sum")  # of several rates: names of PICKS in printed.py
# Placeholder -> its meaning. A command has them in braces.
PLACEHOLDERS = {
    "ranks": "processes of the whole job",
    "nodes": "nodes of the job",
    "ranks_per_node": "processes of a node",
    "hosts": "hosts with their processes, as horovodrun -H and mpirun -H take them: a:2,b:2",
    "host_names": "hosts alone: a,b",
    "threads": "cores of a process",
    "cores": "cores of the whole job, for a program of one process with threads",
    "batch_per_rank": "images of a process in a step",
    "global_batch": "images of all processes in a step",
    "seed": "another for each launch",
    "here": "the folder of PROGRAM=, else that of the kit",
}
_SIZES = ("ranks", "nodes", "hosts", "host_names", "cores", "global_batch")  # another at each size
# Programs that start another: their name says nothing about what is measured. With a version, as python3.
_LAUNCHER = re.compile(r"(?:mpirun|mpiexec|orterun|srun|horovodrun|torchrun|deepspeed|accelerate)(?:[\d.]+|\.\w+)?")
_STARTER = re.compile(rf"{_LAUNCHER.pattern}|(?:python|bash|sh|env|taskset|numactl|time|timeout|nice)[\d.]*")
_BRACES = re.compile(r"\{([a-z_]+)\}")


def search_path() -> str:
    """Return where programs are found: the user's PATH, and last the kit's own, as horovodrun and python."""
    return os.pathsep.join(filter(None, (os.environ.get("PATH", os.defpath), str(ROOT / ".venv/bin"))))


def command_problem(command: str) -> str:
    """Return why a command cannot be started; "" if it can."""
    try:
        argv = shlex.split(command)
    except ValueError as error:
        return f"{error}; it is split into words as a shell does"
    if not argv:
        return "give a command: make scaling COMMAND=..."
    unknown = sorted(set(_BRACES.findall(command)) - PLACEHOLDERS.keys())
    allowed = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
    return f"no placeholder: {', '.join(unknown)}; allowed are {allowed}" if unknown else ""


def pattern_problem(pattern: str | None) -> str:
    """Return why a regular expression cannot be used; "" if it can, or there is none."""
    try:
        re.compile(pattern or "")
    except re.error as error:
        return f"not a regular expression: {error}"
    return ""


def has_size(command: str) -> bool:
    """Return whether a command is another one at each size."""
    return not {*_SIZES}.isdisjoint(_BRACES.findall(command))


def name(command: str) -> str:
    """Return the name of a command's program, for tables: of what its last launcher starts, else of the first one.

    Without launchers, interpreters, their options and .py.
    """
    parts = re.split(r" (?:;|&&|\|\|?) ", " ".join(_words(command)))
    launched = [part for part in parts if any(_LAUNCHER.fullmatch(Path(word).name) for word in part.split())]
    for word in " ".join(launched[-1:] or parts).split():
        if word.startswith("-") or "=" in word or not re.search(r"[A-Za-z]{2}", word):
            continue
        path = Path(word)
        if not _STARTER.fullmatch(path.name) and (path.suffix or "/" in word or shutil.which(word, path=search_path())):
            return path.stem
    return Path((_words(command) or ["program"])[0]).name


def _words(command: str) -> list[str]:
    try:
        return [part for word in shlex.split(command) for part in word.split()]
    except ValueError:
        return []


def filled(command: str, values: Mapping[str, object]) -> list[str]:
    """Return the argv of a command with its placeholders filled; no shell reads it."""
    return [_BRACES.sub(lambda match: str(values[match[1]]), word) for word in shlex.split(command)]


def host_slots(hosts: Sequence[str], ranks_per_node: int) -> str:
    """Return hosts with their processes: a:2,b:2, or localhost:4 if nodes share this machine."""
    return ",".join(f"{host}:{nodes * ranks_per_node}" for host, nodes in Counter(hosts).items())


def file_keys(path: Path) -> dict[str, object]:
    """Return the keys of a file of a user's program, with its folder as `here`. Raises ValueError naming the file."""
    try:
        keys = bounded.yaml_value(bounded.read(path, bounded.MOST_YAML_BYTES))
    except FileNotFoundError as error:
        raise ValueError(f"PROGRAM={path}: no such file; make scaling WRITE={path} writes a first one") from error
    except (OSError, ValueError) as error:
        raise ValueError(f"PROGRAM={path}: {getattr(error, 'strerror', None) or error}") from error
    if not isinstance(keys, dict):
        raise ValueError(f"PROGRAM={path}: allowed are lines as  command: mpirun -np {{ranks}} ./solver")
    if unknown := sorted(map(str, keys.keys() - FILE_KEYS.keys())):
        raise ValueError(f"PROGRAM={path}: {', '.join(unknown)}: no such key; allowed are {', '.join(FILE_KEYS)}")
    folder = path.resolve().parent
    if keys.get("folder"):
        keys["folder"] = str(folder / str(keys["folder"]))
    return {key: value for key, value in keys.items() if value is not None} | {"here": str(folder)}


def override_value(value: object) -> str:
    """Return a value in Hydra's grammar."""
    return quoted(value) if isinstance(value, str) else str(value).lower()


def _key(meaning: str, default: Any = None, **allowed: Any) -> Any:
    """Return the field of a key that a file may have, with its meaning and its allowed values."""
    return field(default=default, metadata={"meaning": meaning} | (allow(**allowed) if allowed else {}))


@dataclass(frozen=True)
class ProgramConfig:
    """A user's own command, which the kit starts and whose printed rate it records: a section of the configuration."""

    command: str = _key("how one size is started; {ranks} and the other placeholders: docs/program.md", MISSING)
    name: str = _key("in tables and figures", MISSING)
    rate: str | None = _key("the line with the rate of the whole job, as  samples/s: {rate}; none: a known log")
    time: str | None = _key("or the line with a time, as  step time {time} ms")
    time_of: str = _key("the time is of a: step, run", "step", names=("step", "run"))
    unit: str | None = _key("of the rate, if the line does not say it, as tokens/s; of the time, as ms")
    scaling: str | None = _key(
        "if the command has no batch: weak (each rank adds work), strong (all share one problem)",
        names=("weak", "strong"),
        null="what its batch says",
    )
    pick: str | None = _key(
        "of several rates: last, median, mean, sum (one of each rank)", names=PICKED, null="one rate is printed"
    )
    skip: int = _key("the first so many rates are warm-up", 0, minimum=0)
    decimal: str | None = _key(
        "the decimal mark, where 1,234 has two readings", names=(".", ","), null="as the number shows"
    )
    each_rank: bool | None = _key(
        "true: what is printed is the rate of one rank; false: that of all", null="not stated"
    )
    confirmed: str | None = _key("the code that a doubtful number asks for, if it is right")  # record/clock.py
    file: str | None = _key("the file with the number, which the program writes where it runs, if not in its output")
    exit_status: int = _key("of a success, if it is not 0", 0, minimum=0, maximum=255)
    until: str | None = _key("end the program after a line that this regular expression matches")
    until_s: float | None = _key("or after so many seconds", above=0, unit="s", null="its end")
    folder: str | None = _key("where the program runs, relative to this file; else the folder of each launch")
    version: str | None = _key("a command that prints the version")
    problem: str | None = _key("what is computed, in words, for a proposal")
    here: str = ""  # the folder that {here} stands for; "": that of the kit

    def rules(self) -> Iterator[Rule]:
        """Yield that the commands and the patterns have no problem, and that the kind of scaling is known."""
        from record.recorded_config import has_batch  # these load the schema of records, which make does not need
        from train.config import printed

        yield not (why := command_problem(self.command)), "command", why
        if self.version is not None:
            yield not (why := command_problem(self.version)), "version", why
        key = "time" if self.rate is None else "rate"
        yield not (why := printed.problem(self.rate, self.time)), key, why
        yield not (why := pattern_problem(self.until)), "until", why
        asked = (
            "the command has no {batch_per_rank} and no {global_batch}: ARGS=program.scaling=weak if each rank adds "
            "work of its own, ARGS=program.scaling=strong if all ranks share one problem"
        )
        yield self.scaling is not None or has_batch(self.command), "scaling", asked
        asked = "how many steps a run has is not known: ARGS=program.scaling=weak if each rank adds work, or strong"
        yield self.scaling is not None or self.time is None or self.time_of != "run", "scaling", asked

    def rules_with(self, run: Any) -> Iterator[Rule]:
        """Yield that each launch runs one point, on whole cores."""
        yield run.measure.design == "launches", "measure.design", "a program needs launches: each runs one point"
        why = "nodes share cores, and a program cannot be limited to a part of one; take at most one node a core"
        yield not run.emulated, "system.cpu_quota_per_node", why


# The keys of a file with their meaning, and those whose values are texts.
FILE_KEYS = {key.name: key.metadata["meaning"] for key in fields(ProgramConfig) if "meaning" in key.metadata}
TEXTS = {key.name for key in fields(ProgramConfig) if key.type in (str, str | None)} - {"here"}
_FIRST = {
    "command": "mpirun -np {ranks} {here}/my_solver --seed {seed}",
    "rate": "steps/s: {rate}",
    "scaling": "strong",
}


def main() -> int:
    """Write a first file with comments; returns the exit status."""
    path = Path(sys.argv[1])
    examples = {key: f"{key}: '{_FIRST[key]}'" if key in _FIRST else f"# {key}: " for key in FILE_KEYS}
    lines = [f"# {text}\n{examples[key]}" for key, text in FILE_KEYS.items()]
    try:
        with path.open("x") as file:
            file.write(f"# make scaling NODES=4 PROGRAM={path}\n\n" + "\n".join(lines) + "\n")
    except OSError as error:
        show(f"error: WRITE={path}: {error.strerror}", file=sys.stderr)
        return 2
    show(f"{path}: written; edit it, then make scaling NODES=2 PROGRAM={path} DRY_RUN=1")
    return 0


if __name__ == "__main__":
    sys.exit(main())
