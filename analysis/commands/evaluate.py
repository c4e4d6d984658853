"""`evaluate`: a reviewer's report on an archive: check it, make it again, run commands, judge its claims."""

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from analysis import TableError, judged_claims
from analysis.archive import collect, manifest
from analysis.commands import arguments, bundle, bundle_check
from analysis.compare import comparison_text, sets
from analysis.evaluation import (
    Contents,
    Evaluation,
    MeasuredExperiment,
    StatedVerdict,
    StepResult,
    claim_rows,
    read_contents,
)
from analysis.page import evaluation_text
from analysis.study import Study
from common import affinity
from common import bounded_files as bounded
from common.terminal import show
from record import run_files as files
from record import this_kit

# Variables that make sets for a recipe: commands are run without them, as if typed in a shell.
_MAKE_VARIABLES = ("MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "MAKELEVEL", "FILE", "ONLY", "SIGN_KEY", "RESULTS")


def declare(parser: argparse.ArgumentParser) -> None:
    bundle_check.declare(parser)
    parser.add_argument("--only", type=lambda text: text.split(","), default=[], metavar="E1,E3",
                        help="also measure these experiments of ARTIFACT.md")  # fmt: skip
    arguments.add(parser, "--results")
    arguments.add(parser, "--out", default=Path("figures/evaluation.md"))


def run(options: argparse.Namespace) -> int:
    """Evaluate the archive and write the report; returns 1 if something is not reproduced or the archive is damaged."""
    contents = read_contents()
    experiments = [_experiment(contents, name) for name in options.only]
    with tempfile.TemporaryDirectory() as temporary:
        file = _private(options.file, Path(temporary))
        problems = [text for text in bundle_check.failures(file, options.sign_key) if text != bundle_check.NOT_COMPARED]
        if problems:
            show(f"{options.file}: not evaluated: {'; '.join(problems)}", file=sys.stderr)
            return 1
        folder = _unpack(file, Path(temporary))
        steps = _run_steps(contents, Path(temporary) / "kit")
        archive = bundle.pack(collect(folder / "results", scrubbed=False))
        steps += [_run(experiment.command, (), {"RESULTS": str(options.results)}) for experiment in experiments]
        result = _evaluation(contents, folder, archive, steps, options)
    files.write_file(options.out, evaluation_text(result).encode(), replace=True)
    document = msgspec.json.format(msgspec.json.encode(result), indent=1)
    files.write_file(options.out.with_suffix(".json"), document, replace=True)
    show(f"{result.counts()}\n{options.out}: each with its numbers")
    return int(result.failed)


def _experiment(contents: Contents, name: str) -> MeasuredExperiment:
    labels = {f"E{number}": experiment for number, experiment in enumerate(contents.experiments, 1)}
    if name not in labels:
        raise TableError(
            f"ONLY={name}: no such experiment; allowed are E1 to E{len(labels)}, as ARTIFACT.md lists them"
        )
    return labels[name]


def _private(file: Path, folder: Path) -> Path:
    """Return a copy in a folder of this user: nobody can exchange it between the check and its use.

    Raises TableError if there is no such file, or it is neither an archive nor a folder.
    """
    copy = folder / f"checked-{file.name}"
    if not (file.is_file() or file.is_dir()):
        raise TableError(f"{file}: no such archive or folder; make bundle writes figures/bundle.tar.gz")
    if file.is_dir():
        shutil.copytree(file, copy, symlinks=True)
    else:
        shutil.copyfile(file, copy)
    return copy


def _unpack(file: Path, folder: Path) -> Path:
    """Return the folder of the unpacked archive, whose content was checked. Python 3.11.2 has no filters of tarfile."""
    if file.is_dir():
        return file
    with tarfile.open(file) as packed:
        for member in packed:
            if content := packed.extractfile(member):
                path = folder / member.name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content.read())
    return folder / manifest.ROOT


def _run_steps(contents: Contents, kit: Path) -> list[StepResult]:
    """Run the steps whose output is known, in a separate folder without records."""
    kit.mkdir()
    for name in (*files.FOLDERS, "analysis"):
        (kit / name).symlink_to(this_kit.ROOT / name)
    return [_run(step.command, step.prints, cwd=kit, capture_output=True) for step in contents.steps]


def _run(command: str, prints: Sequence[str], variables: dict[str, str] | None = None, **options: Any) -> StepResult:
    """Run what `make` starts for a command that a user types, with the Python that runs this.

    prints: lines that its output, which `options` capture, should have.
    """
    show(f"{command} ...")
    began, (_, target, *values) = time.monotonic(), shlex.split(command)
    env = {name: value for name, value in os.environ.items() if name not in _MAKE_VARIABLES}
    env |= dict(value.split("=", 1) for value in values) | (variables or {})
    done = subprocess.run([sys.executable, "-m", "train.make", target], env=env, text=True, **options)
    output = " ".join((done.stdout or "").split())
    missing = tuple(line for line in prints if line not in output)
    good = not missing and done.returncode == 0
    minutes = (time.monotonic() - began) / 60
    return StepResult(command, minutes, "reproduced" if good else "not reproduced", missing)


def _evaluation(
    contents: Contents, folder: Path, archive: bytes, steps: list[StepResult], options: argparse.Namespace
) -> Evaluation:
    study = Study(options.results)
    arguments.print_notices(study)
    measured = set(study.local["experiment"])
    files_stated, differing = _differing(folder, archive)
    rows = claim_rows(_stated(folder), contents.claims, judged_claims.judge(contents.claims, study), measured)
    machine, cores = _processor(), len(affinity.usable_cores())
    commit, comparison = this_kit.commit()[0] or "unknown", ""
    if measured:
        compared = sets.compare(folder / "results", options.results, a_name="the archive")
        comparison = comparison_text.markdown(*comparison_text.sets_tables(compared))
    return Evaluation(
        options.file.name, f"{cores} cores of {machine}", commit, steps, files_stated, differing, rows, comparison
    )


def _stated(folder: Path) -> dict[str, StatedVerdict]:
    """Return the author's verdict on each claim, by its id."""
    file, name = folder / manifest.CLAIMS, manifest.CLAIMS
    if not file.is_file():
        raise TableError(f"{name}: not in the archive; its author packs it with `make bundle` of this kit")
    try:
        verdicts = msgspec.json.decode(bounded.check_json(bounded.read(file)), type=list[StatedVerdict])
    except (OSError, ValueError) as error:
        raise TableError(f"{name}: not the claims that `make bundle` packs: {error}") from error
    return {stated.id: stated for stated in verdicts}


def _differing(folder: Path, archive: bytes) -> tuple[int, list[str]]:
    """Return how many files the archive has, and which of them differ when they are written again."""
    stated = manifest.parse((folder / manifest.MANIFEST).read_text(), manifest.MANIFEST)
    with tempfile.NamedTemporaryFile() as rewritten:
        rewritten.write(archive)
        rewritten.flush()
        digests = manifest.read_packed(Path(rewritten.name)).digests
    return len(stated), [line.partition(": ")[2] for line in manifest.differences(stated, digests)]


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown processor"
    )
