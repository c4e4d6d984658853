"""A JUnit file of what a command checked, which CI systems show."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from pathlib import Path

from train.record.printable import escaped


def write(path: Path, command: str, failures: Mapping[str, str]) -> None:
    """Write a test case for each name; one whose text is not empty has failed, with that text as its message."""
    failed = [text for text in failures.values() if text]
    suite = ElementTree.Element("testsuite", name=command, tests=str(len(failures)), failures=str(len(failed)))
    for name, text in failures.items():
        case = ElementTree.SubElement(suite, "testcase", classname=command, name=escaped(name))
        if text:
            lines = escaped(text)
            ElementTree.SubElement(case, "failure", message=lines.partition("\n")[0]).text = lines
    path.parent.mkdir(parents=True, exist_ok=True)
    ElementTree.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)
