"""The types of what the commands print with `--format json`, and what is generated from them.

`python -m analysis.commands.schema` writes analysis/output.schema.json and the tables of docs/json.md.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from analysis.claims import JudgedClaim
from analysis.commands.audit import Audit
from analysis.commands.compare import ReportComparisons
from analysis.commands.explain import Explained
from analysis.commands.tune import Tuning
from analysis.compare.sets import SetComparisons
from analysis.diagnose.document import Diagnosis
from analysis.experiments.allreduce import AllreducePoint
from analysis.experiments.summary import SummaryPoint
from analysis.history.document import History, ReferenceCheck
from analysis.predict.answers import PredictedTarget
from analysis.timeline.document import LaunchTimeline

SCHEMA = Path(__file__).parents[1] / "output.schema.json"
PAGE = Path(__file__).parents[2] / "docs" / "json.md"
# By command; of two types, the arguments or the experiment decide.
DOCUMENTS: dict[str, list[Any]] = {
    "audit": [Audit],
    "claims": [list[JudgedClaim]],
    "compare": [ReportComparisons, SetComparisons],
    "explain": [Explained],
    "diagnose": [Diagnosis],
    "timeline": [list[LaunchTimeline]],
    "predict": [list[PredictedTarget]],
    "summary": [list[SummaryPoint], list[AllreducePoint]],
    "tune": [Tuning],
    "history": [History],
    "check_reference": [ReferenceCheck],
}
_TYPES = {"string": "text", "integer": "whole number", "boolean": "true or false", "array": "list"}
_TABLE = re.compile(r"<!-- (\w+) -->\n.*?<!-- end -->\n", re.DOTALL)

Schema = dict[str, Any]


def json_schema() -> Schema:
    """Return the JSON Schema of all documents: `$defs` has an entry for each command and each type."""
    types = [one for documents in DOCUMENTS.values() for one in documents]
    references, defined = msgspec.json.schema_components(types, ref_template="#/$defs/{name}")
    for definition in defined.values():  # Python before 3.13 keeps the indentation of docstrings
        definition["description"] = inspect.cleandoc(definition["description"])
    schemas = iter(references)
    commands = {name: [next(schemas) for _ in documents] for name, documents in DOCUMENTS.items()}
    either = {name: one[0] if len(one) == 1 else {"anyOf": one} for name, one in commands.items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What `python -m analysis COMMAND --format json` prints: $defs has one entry a command",
        "$defs": either | defined,
    }


def page(text: str) -> str:
    """Return the text of docs/json.md with its tables as the types have them; a comment before each names its type."""
    types = json_schema()["$defs"]

    def table(match: re.Match[str]) -> str:
        rows = "\n".join(_rows(types, types[match[1]], shown={*_TABLE.findall(text)}))
        return f"<!-- {match[1]} -->\n| name | value | what |\n| --- | --- | --- |\n{rows}\n<!-- end -->\n"

    return _TABLE.sub(table, text)


def _rows(types: Schema, schema: Schema, shown: set[str], path: str = "") -> Iterator[str]:
    """Yield a row for each name in an object, and for those of the objects in it that have no separate table."""
    for name, value in schema["properties"].items():
        absent = "" if name in schema["required"] else "; may be absent"
        yield f"| `{path}{name}` | {_type(value, shown)} | {value['description']}{absent} |"
        inner, dots = _inner(value)
        if inner and inner not in shown:
            yield from _rows(types, types[inner], shown, f"{path}{name}{dots}.")


def _inner(value: Schema) -> tuple[str, str]:
    """Return the type of the objects in a value ("" if there are none), and how its path goes on."""
    for one in value.get("anyOf", [value]):
        if "$ref" in one:
            return one["$ref"].rpartition("/")[2], ""
        if one.get("type") == "array":
            inner, dots = _inner(one["items"])
            return inner, f"[]{dots}"
    return "", ""


def _type(value: Schema, shown: set[str]) -> str:
    """Return the type of a value in words."""
    if "anyOf" in value:
        return " or ".join(_type(one, shown) for one in value["anyOf"])
    if "enum" in value:
        return ", ".join(f"`{one}`" if one else "empty" for one in value["enum"])
    if "$ref" in value:
        name = value["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})" if name in shown else "object"
    kind, inner = str(value["type"]), value.get("items") or value.get("additionalProperties")
    listed = f" of {_type(inner, shown)}" if inner and _inner(value)[0] in ("", *shown) else ""
    return _TYPES.get(kind, kind) + listed


if __name__ == "__main__":
    SCHEMA.write_text(json.dumps(json_schema(), indent=1) + "\n")
    PAGE.write_text(page(PAGE.read_text()))
