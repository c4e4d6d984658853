import xml.etree.ElementTree as ElementTree

import pytest

from analysis.__main__ import main
from analysis.commands import arguments


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("predict", "--to", "16,0"), "'16,0' given; allowed: whole numbers of at least 1, as 16,64,256"),
        (("predict", "--to", "few"), "'few' given; allowed: whole numbers of at least 1"),
        (("predict", "--images", "0"), "'0' given; allowed: a number above 0"),
        (("predict", "--images", "inf"), "'inf' given; allowed: a number above 0"),
        (("proposal", "--runs", "0"), "'0' given; allowed: a whole number of at least 1"),
        (("proposal", "--threshold", "75"), "'75' given; allowed: a fraction between 0 and 1"),
        (("history", "weak_scaling", "--within", "nan"), "'nan' given; allowed: a fraction between 0 and 1"),
        (("history", "weak_scaling", "--since", "yesterday"), "'yesterday' given; allowed: a day, as 2026-11-01"),
    ],
)
def test_an_error_names_what_was_given_and_what_is_allowed(argv, message, capsys):
    with pytest.raises(SystemExit, match="2"):
        main([*argv])
    assert message in capsys.readouterr().err


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
