"""What the commands print, as text and as JSON, is what tests/golden/printed has (CONTRIBUTING.md)."""

import functools
import json
import os
from collections.abc import Callable, Iterator
from difflib import unified_diff
from pathlib import Path

import pytest

from analysis.__main__ import main
from analysis.table import loading
from tests.helpers import GOLDEN, ROOT
from tests.helpers.drawn_figures import draw_quickly

pytestmark = pytest.mark.slow  # all published numbers, many commands

PRINTED = GOLDEN / "printed"
# Real tables, and in TRUTH.md how a reader understands them.
TABLES = sorted((GOLDEN / "ordinary").glob("*.csv"))
JSON = ("--format", "json")
Printed = dict[str, str]
Run = Callable[..., str]


@pytest.fixture
def run(capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Return a function that runs a command in a folder without records, and returns all that it prints.

    Records are read once for all commands, and figures are not drawn.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(loading, "local", functools.cache(loading.local))
    draw_quickly(monkeypatch)
    for name in ("analysis", "tests"):
        Path(name).symlink_to(ROOT / name)

    def printed(*arguments: str) -> str:
        status = main([*arguments])
        output = capsys.readouterr()
        errors = "".join(f"! {line}\n" for line in output.err.splitlines())
        out = _rounded(output.out) if JSON[1] in arguments else output.out
        lines = (line.rstrip() for line in f"$ {' '.join(arguments)}\n{out}{errors}".splitlines())
        text = "\n".join([*lines, *([f"exit status {status}"] if status else []), ""])
        return text.replace(f"{tmp_path}/", "")

    return printed


def _rounded(document: str) -> str:
    """Return a JSON document with numbers in six digits: the last ones differ between processors."""
    if not document:
        return ""
    return json.dumps(json.loads(document, parse_float=lambda text: float(f"{float(text):.6g}")), indent=1) + "\n"


def check(prefix: str, printed: Printed) -> None:
    """Compare what was printed with the files below `prefix`, by the end of their names; or rewrite these files."""
    files = {str(path)[len(f"{PRINTED}/{prefix}") :]: path for path in PRINTED.glob(f"{prefix}*")}
    if not os.environ.get("REWRITE_GOLDEN"):
        assert printed == {name: path.read_text() for name, path in files.items()}
        return
    for name in files.keys() - printed.keys():
        files[name].unlink()
    for name, text in printed.items():
        file = Path(f"{PRINTED}/{prefix}{name}")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def text_and_json(run: Run, name: str, *arguments: str) -> Iterator[tuple[str, str]]:
    """Yield the files of a command that prints a text and a document."""
    yield f"{name}.txt", run(name.partition(".")[0], *arguments)
    yield f"{name}.json", run(name.partition(".")[0], *arguments, *JSON)


def test_reports(run: Run):
    check("reports/", dict(text_and_json(run, "audit")))


def changes(before: str, after: str) -> str:
    """Return the lines that are in one of two texts alone."""
    lines = unified_diff(before.splitlines(True), after.splitlines(True), n=0)
    return "".join(line for line in lines if not line.startswith(("---", "+++", "@@")))


FOLDERS = {"rounds": ("weak_scaling",), "launches": ("fixed_work", "strategies"), "emulated": ("weak_scaling",)}


@pytest.mark.parametrize("case", FOLDERS)
def test_records(run: Run, case: str):
    folder = f"tests/golden/results/{case}"
    results = ("--results", folder)
    printed: Printed = {}
    for name in FOLDERS[case]:
        for command in ("summary", "diagnose", "history"):
            printed |= text_and_json(run, f"{command}.{name}", name, *results)
        printed[f"summary.{name}.brief.txt"] = run("summary", name, "--brief", *results)
        for command in ("explain", "predict"):
            printed |= text_and_json(run, f"{command}.{name}", "--experiment", name, *results)
    printed |= text_and_json(run, "tune", FOLDERS[case][-1], *results)
    printed["proposal.txt"] = run("proposal", "--experiment", FOLDERS[case][0], *results)
    printed |= text_and_json(run, "compare", *results)
    printed |= text_and_json(run, "compare.sets", f"A={folder}", "B=tests/golden/results/rounds")
    printed["reference.txt"] = run("reference", "site", *results)
    printed |= text_and_json(run, "check-reference", "site", *results)
    for name, text in text_and_json(run, "audit", folder):  # which the reports' own part is left out of
        printed[name] = changes((PRINTED / "reports" / name).read_text(), text)
    check(f"{case}/", printed)


@pytest.mark.parametrize("file", TABLES, ids=lambda file: file.stem)
def test_ordinary_tables(run: Run, file: Path):
    path = str(file.relative_to(ROOT))
    parts = [run("table", path)]
    for command in (("audit", "--file", path), ("explain", path), ("predict", "--file", path, "--to", "16,64")):
        parts.append(run(*command))
        if "exit status 2" not in parts[-1]:
            parts.append(run(*command, *JSON))
    check(f"ordinary/{file.stem}", {".txt": "\n".join(parts)})
