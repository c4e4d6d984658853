"""Run the commands of a target of the Makefile, with the values that the user set as environment variables.

python -m train.make weak-scaling

A value is one argument of a command. No shell and no Make reads it, so a file may have any name.
"""

import argparse
import ctypes
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType

from common.terminal import show
from train.config import program, quoted

# A name in Hydra's grammar without quotes. Not true, null or 1e3, which would change their type.
_NAME = re.compile(r"(?!(?:true|false|null|inf|nan)$)[A-Za-z][\w-]*", re.I)
_END_WITH_PARENT = partial(ctypes.CDLL(None).prctl, 1, signal.SIGTERM)  # PR_SET_PDEATHSIG; it stays so after execv
_WRONG_INPUT = 2  # the exit status of a command that cannot start: nothing after it makes sense


@dataclass(frozen=True)
class MakeStep:
    """One command of a target: a module with its arguments."""

    command: tuple[str, ...]
    counts: bool = True  # its failure is a failure of the target


@dataclass(frozen=True)
class Variables:
    """The user's variables, by name; an empty value counts as none."""

    values: Mapping[str, str]

    def text(self, name: str, default: str = "") -> str:
        """Return the value of a variable; an experiment may be named as its target is: weak-scaling."""
        value = self.values.get(name) or default
        return value.replace("-", "_") if name == "EXPERIMENT" else value

    def path(self, name: str, default: str = "") -> str:
        """Return the value of a variable as an argument that no parser can take for an option."""
        value = self.text(name, default)
        return f"./{value}" if value.startswith("-") else value

    def is_on(self, name: str) -> bool:
        """Return whether a switch is on: NAME=0 means no."""
        return self.text(name) not in ("", "0", "no", "false")

    def items(self, name: str) -> list[str]:
        """Return the items of a list, separated by commas, spaces or both."""
        return [item for item in re.split(r"[,\s]+", self.text(name)) if item]

    def only(self, *names: str) -> "Variables":
        """Return these variables alone."""
        return Variables({name: self.text(name) for name in names})

    def options(self, *names: str) -> list[str]:
        """Return the options of these variables, as --sign-key=KEY of SIGN_KEY, without those that are not set."""
        options: list[str] = []
        for name in names:
            option = "--ranks" if name == "NODES" else f"--{name.lower().replace('_', '-')}"
            if name in ("ALL", "ALL_ROUNDS", "ATLAS", "DRY_RUN", "FORCE", "SCRUB", "STRICT"):
                options += [option] if self.is_on(name) else []
            else:
                value = ",".join(self.items(name)) if name in ("MODELS", "ONLY", "TO") else self.text(name)
                options += [f"{option}={value}"] if value else []
        return options


def _name(text: str) -> str:
    return text if not text or _NAME.fullmatch(text) else quoted(text)


def _quoted(text: str) -> str:
    return quoted(text) if text else ""


def _program(user: Variables) -> dict[str, str]:
    """Return the keys of the user's program: of the file PROGRAM=, then COMMAND=, RATE=, TIME=. Raises ValueError."""
    keys = program.file_keys(Path(user.text("PROGRAM"))) if user.text("PROGRAM") else {}
    variables = {"command": user.text("COMMAND"), "rate": user.text("RATE"), "time": user.text("TIME")}
    given = {key: value for key, value in variables.items() if value}
    if keys.keys() | given.keys() >= {"rate", "time"}:
        keys = {key: value for key, value in keys.items() if key in given or key not in ("rate", "time")}
    keys |= given
    if "command" in keys:
        keys.setdefault("name", program.name(str(keys["command"])))
    return {f"program.{key}": program.override_value(value) for key, value in keys.items()}


def _argument(text: str) -> str:
    """Return an item of ARGS; a text of a user's program, as program.until=^step 9, in Hydra's quotes."""
    key, _, value = text.partition("=")
    is_text = key.removeprefix("program.") in program.TEXTS and key.startswith("program.")
    return f"{key}={quoted(value)}" if is_text and value != "null" and value[:1] not in ("'", '"') else text


def overrides(user: Variables) -> list[str]:
    """Return the overrides of a launch. Raises ValueError: ARGS has an unmatched quote, PROGRAM= cannot be read."""
    hosts = user.items("HOSTS")
    for name in ("NODES", "REPEATS", "GLOBAL_BATCH"):
        if not re.fullmatch(r"-?\d*(,\d+)*", user.text(name)):
            raise ValueError(f"{name}={user.text(name)}: must be a whole number")
    values = {
        "device": user.text("DEVICE", "cpu"),
        "nodes": user.text("NODES"),
        "model": ",".join(map(_name, user.items("MODELS"))),
        "dataset": _name(user.text("DATASET")),
        "measure": _name(user.text("MEASURE")),
        "measure.repeats": user.text("REPEATS"),
        "dataset.data_dir": _quoted(user.text("DATA_DIR")),
        "results": _quoted(user.text("RESULTS")),
        "launcher": _name(user.text("LAUNCHER")),
        "launcher.hosts": f"[{','.join(map(quoted, hosts))}]" if hosts else "",
        "system": _name(user.text("SYSTEM")),
        "launcher.split": "true" if user.is_on("SPLIT") else "",
        "container": _name(user.text("CONTAINER")),
        "batch_per_rank": "null" if user.text("GLOBAL_BATCH") else "",
        "global_batch": user.text("GLOBAL_BATCH"),
        **_program(user),
        "container.image": _quoted(user.text("IMAGE")),
    }
    try:
        arguments = [*map(_argument, shlex.split(user.text("ARGS")))]
        return [f"{key}={value}" for key, value in values.items() if value] + arguments
    except ValueError as error:
        raise ValueError(f"ARGS={user.text('ARGS')}: {error}; give key=value pairs as a shell reads them") from error


# Targets with one command: the command, the variables of its options, and the variable of its positional argument.
_SIMPLE = {
    "bundle": ("analysis bundle", ("SCRUB", "SIGN_KEY", "RESULTS"), ()),
    "bundle-check": ("analysis bundle-check", ("SIGN_KEY",), ("FILE", "figures/bundle.tar.gz")),
    "check-reference": ("analysis check-reference", ("SINCE", "WITHIN", "JUNIT", "RESULTS"), ("NAME",)),
    "claims": ("analysis claims", ("ALL", "RESULTS"), ()),
    "doctor": ("train.tools.doctor", ("DEVICE", "NODES", "CONTAINER", "IMAGE"), ()),
    "evaluate": ("analysis evaluate", ("ONLY", "SIGN_KEY", "RESULTS"), ("FILE", "figures/bundle.tar.gz")),
    "figures": ("analysis draw", ("RESULTS",), ()),
    "history": (
        "analysis history --draw", ("SINCE", "WITHIN", "STRICT", "JUNIT", "RESULTS"), ("EXPERIMENT", "weak_scaling"),
    ),
    "predict": (
        "analysis predict --draw",
        ("EXPERIMENT", "FILE", "COLUMNS", "EXCHANGE", "MODELS", "TO", "UP_TO", "GLOBAL_BATCH", "IMAGES", "EPOCHS",
         "PRICE", "RESULTS"), (),
    ),
    "proposal": (
        "analysis proposal", ("EXPERIMENT", "THRESHOLD", "MODELS", "TO", "IMAGES", "EPOCHS", "RUNS", "RESULTS"), (),
    ),
    "reference": ("analysis reference", ("EXPERIMENT", "SINCE", "WITHIN", "FORCE", "RESULTS"), ("NAME",)),
    "release": ("train.tools.release", (), ()),
    "report": ("analysis report", ("RESULTS",), ()),
    "summary": ("analysis summary --draw", ("ALL_ROUNDS", "FORMAT", "RESULTS"), ("EXPERIMENT", "weak_scaling")),
    "status": ("train.launch.status", (), ("RESULTS", "results")),
    "table": ("analysis table", ("COLUMNS",), ("FILE",)),
    "tables": ("analysis tables", (), ()),
    "wandb-sync": ("train.tracking sync", (), ("RESULTS", "results")),
}  # fmt: skip


def _command(target: str, user: Variables) -> list[str]:
    """Return the command of a target with a single command; empty if the target launches an experiment."""
    match target:
        case "audit":
            records = [] if user.text("FILE") else filter(None, [user.path("RESULTS")])
            chosen = user.options("FILE", "COLUMNS", "STRICT", "JUNIT", "ALL", "ATLAS")
            return ["analysis", "audit", *chosen, *records]
        case "compare":
            sets = [f"{name}={folder}" for name in ("A", "B") if (folder := user.text(name))]
            return ["analysis", "compare", *user.options("COLUMNS", "RESULTS"), *sets]
        case "data-check":
            others = overrides(user.only("DATA_DIR", "ARGS"))[1:]  # it runs on the CPU
            return ["train.tools.data_check", f"dataset={_name(user.text('DATASET', 'cifar10'))}", *others]
        case "data-fetch":
            dataset = user.text("DATASET", "cifar10")
            folder = user.path("DATA_DIR", f"data/{dataset}")
            return ["train.tools.data_fetch", *user.options("URL", "CHECKSUM"), "--", dataset, folder]
        case "explain":
            table = [] if user.text("EXPERIMENT") else [user.path("FILE", "analysis/published/000_hacksa.csv")]
            return ["analysis", "explain", *user.options("EXPERIMENT", "COLUMNS", "RESULTS"), *table]
        case "input-bench":
            variables = user.only("DEVICE", "MODELS", "DATASET", "DATA_DIR", "RESULTS", "ARGS")
            return ["train.tools.input_bench", *overrides(variables)]
    command, options, positional = _SIMPLE.get(target, ("", (), ()))
    if positional and not user.text(*positional):
        raise ValueError(f"{positional[0]}= is missing: make {target} {positional[0]}=...")
    return [*command.split(), *user.options(*options), *([user.path(*positional)] if positional else [])]


def steps(target: str, user: Variables) -> list[MakeStep]:
    """Return the commands of a target in their order. Raises ValueError as `overrides` does, or for EXPERIMENT=."""
    if command := _command(target, user):
        return [MakeStep(tuple(command))]
    if target == "scaling" and user.text("WRITE"):
        return [MakeStep(("train.config.program", user.path("WRITE")))]
    if target == "diagnose" and (experiment := user.text("EXPERIMENT")):
        return [_analysis("diagnose", experiment, *user.options("MODELS"), "--draw", *user.options("RESULTS"))]
    if other := user.text("EXPERIMENT"):
        raise ValueError(f"EXPERIMENT={other}: make {target} measures, and reads no other experiment; leave it out")
    if target == "reproduce":
        report = user.text("REPORT")
        first = MakeStep(("train.launch.reproduce", *user.options("FORCE", "DRY_RUN"), "--", report, *overrides(user)))
        following = _analysis("report", f"--report={report}", f"--out=figures/reproduce-{report}.html", counts=False)
    else:
        experiment = target.replace("-", "_")
        options = user.options("FORCE", "DRY_RUN", "ONLY")
        first = MakeStep(("train.launch", *options, f"experiment={experiment}", *overrides(user)))
        following = {
            "diagnose": _analysis("diagnose", "diagnose", *user.options("MODELS"), "--draw", counts=False),
            "tune": _analysis("tune", *user.options("MODELS", "WRITE")),
            "timeline": _analysis("timeline", *user.options("MODELS")),
        }.get(target) or _analysis("summary", experiment, "--brief", "--draw", counts=False)
    check = [_analysis("tune", "--dry-run", *user.options("WRITE"))] if target == "tune" and user.text("WRITE") else []
    if user.is_on("DRY_RUN") or _submits(user):  # nothing is measured when it returns
        return [*check, first]
    return [*check, first, MakeStep((*following.command, *user.options("RESULTS")), following.counts)]


def _submits(user: Variables) -> bool:
    """Return whether the launcher of these variables submits jobs."""
    names = [text.removeprefix("launcher=") for text in overrides(user) if text.startswith("launcher=")]
    if not names:
        return False
    from train.launch.launchers import LAUNCHERS  # it takes longer to import than all else here

    launcher = LAUNCHERS.get(names[-1])
    return launcher is not None and launcher.submits(os.environ)


def _analysis(*command: str, counts: bool = True) -> MakeStep:
    return MakeStep(("analysis", *command), counts)


def run(commands: Sequence[MakeStep]) -> int:
    """Run the commands one after the other, then print what they leave for the end; returns the exit status.

    Ctrl-C reaches a command from the terminal. SIGTERM is passed on to it, and ends the target.
    """
    child: subprocess.Popen | None = None
    terminated = False

    def pass_on(number: int, _: FrameType | None) -> None:
        nonlocal terminated
        terminated |= number == signal.SIGTERM
        if terminated and child:
            child.terminate()

    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:  # ignored by nohup
            signal.signal(number, pass_on)
    status = 0
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as last_lines:
        variables = {**os.environ, "LAST_LINES": last_lines.name}
        for step in commands:
            command = [sys.executable, "-m", *step.command]
            child = subprocess.Popen(command, env=variables, preexec_fn=_END_WITH_PARENT)
            code = child.wait()
            if step.counts:
                status = status or (code if code >= 0 else 128 - code)
            if terminated or code == _WRONG_INPUT:
                break
        if last := last_lines.read():
            show("", last.rstrip("\n"))
    return status


def main() -> int:
    """Run the target that the command line names; returns the exit status."""
    _END_WITH_PARENT()
    if os.environ.pop("MAKE_PID", "") not in ("", str(os.getppid())):  # it was killed before this
        return 128 + signal.SIGHUP
    parser = argparse.ArgumentParser(prog="python -m train.make", description=__doc__.splitlines()[0])
    parser.add_argument("target", help="as in the Makefile; one that is not in this file launches an experiment")
    target, user = parser.parse_args().target, Variables(os.environ)
    # Named in what the command advises. GIVEN: the names of the variables that the user set, from the Makefile.
    given = (f"{name}={user.text(name)}" for name in user.items("GIVEN"))
    os.environ["TYPED_COMMAND"] = shlex.join(["make", target, *given])
    try:
        commands = steps(target, user)
    except ValueError as error:
        show(f"error: {error}", file=sys.stderr)
        return _WRONG_INPUT
    if len(commands) == 1:
        os.execv(sys.executable, [sys.executable, "-m", *commands[0].command])
    return run(commands)


if __name__ == "__main__":
    sys.exit(main())
