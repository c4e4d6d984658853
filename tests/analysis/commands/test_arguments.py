import argparse
import xml.etree.ElementTree as ElementTree

import pytest

from analysis.__main__ import main
from analysis.commands import arguments


@pytest.mark.parametrize(
    ("convert", "text", "value"),
    [
        (arguments.ranks, "64,16,64", (64, 16)),
        (arguments.positive, "0.5", 0.5),
        (arguments.fraction, "0.05", 0.05),
        (arguments.day, "2026-11-01", "2026-11-01"),
    ],
)
def test_values_are_read(convert, text, value):
    assert convert(text) == value


@pytest.mark.parametrize(
    ("convert", "text", "allowed"),
    [
        (arguments.ranks, "16,0", "at least 1"),
        (arguments.ranks, "few", "at least 1"),
        (arguments.positive, "0", "above 0"),
        (arguments.positive, "inf", "above 0"),
        (arguments.fraction, "5", "between 0 and 1"),
        (arguments.fraction, "nan", "between 0 and 1"),
        (arguments.fraction, "half", "between 0 and 1"),
        (arguments.day, "yesterday", "as 2026-11-01"),
    ],
)
def test_an_error_names_what_was_given_and_what_is_allowed(convert, text, allowed):
    with pytest.raises(argparse.ArgumentTypeError, match=f"{text}.*{allowed}"):
        convert(text)


@pytest.mark.parametrize(
    ("argv", "allowed"),
    [
        (("predict", "--to", "16,x"), "whole numbers of at least 1"),
        (("predict", "--images", "-1"), "numbers above 0"),
        (("proposal", "--threshold", "75"), "must be a fraction"),
        (("history", "weak_scaling", "--within", "5"), "must be a fraction"),
        (("history", "weak_scaling", "--since", "yesterday"), "must be a day"),
    ],
)
def test_commands_refuse_such_values(argv, allowed, capsys):
    with pytest.raises(SystemExit, match="2"):
        main([*argv])
    assert allowed in capsys.readouterr().err


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
