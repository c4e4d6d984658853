"""The types of the documents that commands print with `--format json`, and what is generated from them.

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
# By command; if there are two types, the arguments or the experiment decide.
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
    types = [kind for kinds in DOCUMENTS.values() for kind in kinds]
    references, defined = msgspec.json.schema_components(types, ref_template="#/$defs/{name}")
    for definition in defined.values():  # Python before 3.13 keeps the indentation of docstrings
        definition["description"] = inspect.cleandoc(definition["description"])
    schemas = iter(references)
    commands = {name: [next(schemas) for _ in kinds] for name, kinds in DOCUMENTS.items()}
    either = {name: any_of[0] if len(any_of) == 1 else {"anyOf": any_of} for name, any_of in commands.items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What `python -m analysis COMMAND --format json` prints: $defs has one entry a command",
        "$defs": either | defined,
    }


def page(text: str) -> str:
    """Return the text of docs/json.md with its lists as the types have them; a comment before each names its type."""
    types = json_schema()["$defs"]

    def items(match: re.Match[str]) -> str:
        lines = "\n".join(_items(types, types[match[1]], anchors=_anchors(text)))
        return f"<!-- {match[1]} -->\n{lines}\n<!-- end -->\n"

    return _LIST.sub(items, text)


def _anchors(text: str) -> dict[str, str]:
    """Return the heading above the list of each type."""
    sections = [section.partition("\n") for section in text.split("\n## ")]
    return {name: heading for heading, _, body in sections for name in re.findall(_COMMENT, body)}


def _items(types: Schema, schema: Schema, anchors: dict[str, str], indent: str = "") -> Iterator[str]:
    """Yield a line for each name in an object, and below it for those of the objects in it that have no other list."""
    for name, value in schema["properties"].items():
        absent = "" if name in schema["required"] else ", may be absent"
        meaning = f": {value['description']}" if "description" in value else ""
        yield f"{indent}- `{name}` ({_type(value, anchors)}{absent}){meaning}"
        inner = _inner(value)
        if inner and inner not in anchors:
            yield from _items(types, types[inner], anchors, f"{indent}  ")


def _inner(value: Schema) -> str:
    """Return the type of the objects in a value; "" if there are none."""
    for option in value.get("anyOf", [value]):
        if "$ref" in option:
            return str(option["$ref"].rpartition("/")[2])
        if option.get("type") == "array":
            return _inner(option["items"])
    return ""


def _type(value: Schema, anchors: dict[str, str]) -> str:
    """Return the type of a value, by its name in JSON Schema or as a link to the list of its names."""
    if "anyOf" in value:
        return " or ".join(_type(option, anchors) for option in value["anyOf"])
    if "enum" in value:
        return ", ".join(f"`{choice}`" if choice else "empty" for choice in value["enum"])
    if "$ref" in value:
        name = value["$ref"].rpartition("/")[2]
        return f"[{name}](#{anchors[name]})" if name in anchors else "object"
    inner = value.get("items") or value.get("additionalProperties")
    element_type = f" of {_type(inner, anchors)}" if inner and _inner(inner) in ("", *anchors) else ""
    return f"{value['type']}{element_type}"


if __name__ == "__main__":
    SCHEMA.write_text(json.dumps(json_schema(), indent=1) + "\n")
    PAGE.write_text(page(PAGE.read_text()))
