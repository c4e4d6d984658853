"""The paths, links, make targets and modules that the README and the pages name exist."""

import re
from pathlib import Path

import pytest

from tests.helpers import ROOT

PAGES = [ROOT / name for name in ("README.md", "ARTIFACT.md", "analysis/published/SOURCES.md")]
PAGES += sorted((ROOT / "docs").glob("*.md"))
FOLDERS = ("analysis", "benchmarks", "common", "conf", "containers", "docs", "record", "requirements", "tests", "train")
# The names in paths and targets that docs/adding.md and docs/clusters.md ask the reader to create.
EXAMPLES = {"mymodel", "pets", "ranks_on_a_node", "momentum", "pbs", "NAME", "mine"}

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def code(page: Path) -> str:
    """The code blocks, without their comments, and the code spans of a page: one line each."""
    text = page.read_text()
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE))
    return "\n".join([*(re.sub(r"(^|\s)#.*", "", block) for block in blocks), *spans])


def paths(page: Path) -> set[str]:
    """The paths in a page's code that begin with a folder of the repository."""
    result = re.findall(rf"(?<![\w./<-])(?:{'|'.join(FOLDERS)})/[\w./*-]*", code(page))
    return {path.rstrip(".") for path in result if Path(path).stem not in EXAMPLES}


def anchors(page: Path) -> set[str]:
    """The names by which a link finds the headings of a page."""
    headings = re.findall(r"^#+ (.*)", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def targets() -> set[str]:
    """The targets of the Makefile, experiments included."""
    named = re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    return {*named, *(path.stem.replace("_", "-") for path in (ROOT / "conf/experiment").glob("*.yaml"))}


@each_page
def test_paths_exist(page):
    assert [path for path in paths(page) if not any(ROOT.glob(path))] == []


@each_page
def test_links_and_images_exist(page):
    text = page.read_text()
    linked = [*re.findall(r"\]\(([^)\s]+)\)", text), *re.findall(r'src="([^"]+)"', text)]
    local = [link.partition("#")[::2] for link in linked if "://" not in link]
    assert [link for link, _ in local if not (page.parent / link).exists()] == []
    sections = [(page.parent / link if link else page, name) for link, name in local if name]
    assert [(file.name, name) for file, name in sections if name not in anchors(file)] == []


@each_page
def test_targets_exist(page):
    page_targets = set(re.findall(r"\bmake ([a-z][a-z0-9-]*)", code(page)))
    assert page_targets - targets() - {name.replace("_", "-") for name in EXAMPLES} == set()


@each_page
def test_modules_can_be_run(page):
    modules = {name.replace(".", "/") for name in re.findall(r"python -m ([\w.]+)", code(page))}
    assert [m for m in modules if not any((ROOT / file).exists() for file in (f"{m}.py", f"{m}/__main__.py"))] == []


def test_the_design_has_every_package_of_train():
    packages = {f"train/{path.parent.name}/" for path in (ROOT / "train").glob("*/__init__.py")}
    assert packages - paths(ROOT / "docs/design.md") == set()


def test_functions_and_classes_in_the_design_exist():
    packages = ("train", "record", "common", "analysis")
    sources = [path.read_text() for folder in packages for path in (ROOT / folder).rglob("*.py")]
    names = re.findall(r"^(?:\w+\.)?(\w*[a-z]_[a-z]\w*|[A-Z]\w*[a-z]\w*)$", code(ROOT / "docs/design.md"), re.MULTILINE)
    assert {"RunConfig", "ExperimentConfig", "LaunchPlan"} <= {*names}
    assert {name for name in names if not any(re.search(rf"\b{name}\b", source) for source in sources)} == set()


def test_the_pages_name_what_is_looked_for():
    readme = code(ROOT / "README.md")
    assert "make weak-scaling NODES=2" in readme
    assert "python -m train.launch" in readme
    assert "conf/config.yaml" in paths(ROOT / "docs/adding.md")
