"""The types of what the commands print with `--format json`, and what is generated from them.

`python -m analysis.commands.schema` writes analysis/output.schema.json and the lists of docs/json.md.
"""

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
from analysis.commands.diagnose import Diagnosis
from analysis.commands.explain import Explained
from analysis.commands.summary import Tuning
from analysis.compare.sets import SetComparisons
from analysis.experiments.allreduce import AllreducePoint
from analysis.experiments.summary import SummaryPoint
from analysis.history.text import History, ReferenceCheck
from analysis.predict.answers import PredictedTarget
from analysis.timeline.text import LaunchTimeline

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
_COMMENT = r"<!-- (\w+) -->\n"
_LIST = re.compile(_COMMENT + ".*?<!-- end -->\n", re.DOTALL)

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
    """Return the text of docs/json.md with its lists as the types have them; a comment before each names its type."""
    types = json_schema()["$defs"]

    def items(match: re.Match[str]) -> str:
        lines = "\n".join(_items(types, types[match[1]], shown=_anchors(text)))
        return f"<!-- {match[1]} -->\n{lines}\n<!-- end -->\n"

    return _LIST.sub(items, text)


def _anchors(text: str) -> dict[str, str]:
    """Return the heading above the list of each type."""
    sections = [section.partition("\n") for section in text.split("\n## ")]
    return {name: heading for heading, _, body in sections for name in re.findall(_COMMENT, body)}


def _items(types: Schema, schema: Schema, shown: dict[str, str], indent: str = "") -> Iterator[str]:
    """Yield a line for each name in an object, and below it for those of the objects in it that have no other list."""
    for name, value in schema["properties"].items():
        absent = "" if name in schema["required"] else ", may be absent"
        meaning = f": {value['description']}" if "description" in value else ""
        yield f"{indent}- `{name}` ({_type(value, shown)}{absent}){meaning}"
        inner = _inner(value)
        if inner and inner not in shown:
            yield from _items(types, types[inner], shown, f"{indent}  ")


def _inner(value: Schema) -> str:
    """Return the type of the objects in a value; "" if there are none."""
    for one in value.get("anyOf", [value]):
        if "$ref" in one:
            return str(one["$ref"].rpartition("/")[2])
        if one.get("type") == "array":
            return _inner(one["items"])
    return ""


def _type(value: Schema, shown: dict[str, str]) -> str:
    """Return the type of a value, by its name in JSON Schema or as a link to the list of its names."""
    if "anyOf" in value:
        return " or ".join(_type(one, shown) for one in value["anyOf"])
    if "enum" in value:
        return ", ".join(f"`{one}`" if one else "empty" for one in value["enum"])
    if "$ref" in value:
        name = value["$ref"].rpartition("/")[2]
        return f"[{name}](#{shown[name]})" if name in shown else "object"
    inner = value.get("items") or value.get("additionalProperties")
    element_type = f" of {_type(inner, shown)}" if inner and _inner(inner) in ("", *shown) else ""
    return f"{value['type']}{element_type}"


if __name__ == "__main__":
    SCHEMA.write_text(json.dumps(json_schema(), indent=1) + "\n")
    PAGE.write_text(page(PAGE.read_text()))
