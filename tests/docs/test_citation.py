"""CITATION.cff, codemeta.json, pyproject.toml and the locked requirements say the same."""

import json
import re
import tomllib

import yaml

from tests.helpers import ROOT

CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())
CODEMETA = json.loads((ROOT / "codemeta.json").read_text())
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_both_files_say_the_same():
    assert CITATION["version"] == CODEMETA["version"] == PROJECT["version"]
    assert CITATION["title"] == CODEMETA["name"]
    assert CITATION["abstract"] == CODEMETA["description"]
    assert CODEMETA["license"] == f"https://spdx.org/licenses/{CITATION['license']}"
    assert CITATION["license"] == PROJECT["license"]
    assert "Apache License" in (ROOT / "LICENSE").read_text()
    assert CODEMETA["dateModified"] == CITATION["date-released"].isoformat()
    assert [author["name"] for author in CODEMETA["author"]] == [author["name"] for author in CITATION["authors"]]
    assert CODEMETA["keywords"] == CITATION["keywords"]
    assert all((ROOT / CODEMETA[name]).is_file() for name in ("readme", "softwareHelp"))


def test_what_is_required_is_what_is_locked():
    required = dict(line.split(" ") for line in CODEMETA["softwareRequirements"])
    assert PROJECT["requires-python"] == required["Python"] == CODEMETA["runtimePlatform"].removeprefix("Python ")
    packages = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
    locked = {package["name"]: package.get("version") for package in packages}
    assert (locked["tensorflow-cpu"], locked["horovod"]) == (required["TensorFlow"], required["Horovod"])


def test_the_doi_is_one_and_has_its_line():
    text = (ROOT / "CITATION.cff").read_text()
    assert len(re.findall(r"^(?:# )?doi: 10\.\d{4,}/\S+$", text, re.MULTILINE)) == 1
    doi = CITATION.get("doi")
    assert CODEMETA.get("identifier") == (f"https://doi.org/{doi}" if doi else None)
