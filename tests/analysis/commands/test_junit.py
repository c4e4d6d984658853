"""What a CI system reads from a JUnit file."""

import xml.etree.ElementTree as ElementTree

from analysis.commands import arguments


def test_failures_and_passes_with_text_that_xml_does_not_allow(tmp_path):
    file = tmp_path / "ci" / "audit.xml"
    arguments.write_junit(file, "audit", {"speedup <1>": "", "copied\x1b[31m": "row 3: stated 2\nrow 5: stated & 3"})
    suite = ElementTree.parse(file).getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    passed, failed = suite
    assert (passed.get("name"), len(passed)) == ("speedup <1>", 0)
    assert failed.get("name") == "copied\\x1b[31m"
    assert failed[0].get("message") == "row 3: stated 2"
    assert failed[0].text == "row 3: stated 2\nrow 5: stated & 3"
