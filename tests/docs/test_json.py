"""docs/json.md has each name that analysis/output.schema.json has, with its meaning there, and no other."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "analysis" / "output.schema.json").read_text())["$defs"]
PAGE = (ROOT / "docs" / "json.md").read_text()
_TYPES = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false"}
_TYPES |= {"null": "null", "object": "object", "array": "list"}


def what(of: dict) -> str:
    """The type of a value in words."""
    if "$ref" in of:
        return (
            f"[{of['$ref'].rpartition('/')[2].replace('_', ' ')}](#{of['$ref'].rpartition('/')[2].replace('_', '-')})"
        )
    if "enum" in of:
        return ", ".join(f"`{value}`" for value in of["enum"])
    if "anyOf" in of or "oneOf" in of:
        return " or ".join(what(one) for one in of.get("anyOf", of.get("oneOf")))
    types = of["type"] if isinstance(of["type"], list) else [of["type"]]
    said = " or ".join(_TYPES[one] for one in types)
    simple = of.get("items") if of.get("items", {}).get("type") != "object" else None
    return f"{said} of {what(simple)}" if simple else said


def rows(of: dict, before: str = "") -> Iterator[str]:
    """A row of the table for each name in an object or in the objects of a list, with those within it."""
    if of.get("type") == "array":
        yield from rows(of["items"], before + "[]")
        return
    for name, value in of.get("properties", {}).items():
        dotted = f"{before}.{name}" if before else name
        absent = "" if name in of["required"] else "; may be absent"
        yield f"| `{dotted}` | {what(value)} | {value.get('description', '')}{absent} |"
        yield from rows(value, dotted)


def table(name: str) -> str:
    """What the page has of one command or of a part that several share."""
    return "\n".join(["| name | value | what |", "| --- | --- | --- |", *rows(SCHEMA[name])])


@pytest.mark.parametrize("name", [name for name in SCHEMA if [*rows(SCHEMA[name])]])
def test_the_page_has_the_table(name):
    section = PAGE.partition(f"## {name.replace('_', ' ')}\n")[2].partition("\n## ")[0]
    assert [line for line in section.splitlines() if line.startswith("|")] == table(name).splitlines()


def test_every_part_has_a_section():
    assert [line[3:] for line in PAGE.splitlines() if line.startswith("## ")] == [
        name.replace("_", " ") for name in SCHEMA
    ]
