import argparse
import importlib
from collections import defaultdict

import pytest

from analysis import __main__
from analysis.__main__ import COMMANDS
from analysis.commands import arguments


def test_an_option_that_several_commands_have_is_the_same_in_each():
    helps = defaultdict(set)
    for module in map(__main__.module, COMMANDS):
        parser = argparse.ArgumentParser()
        importlib.import_module(module).declare(parser)
        for action in parser._actions:
            for option in action.option_strings:
                helps[option].add((action.help, action.metavar, action.type))
    own = {"--experiment", "--file", "--out", "--sign-key", "--strict", "--to"}  # what they say depends on the command
    assert {option for option, printed in helps.items() if len(printed) > 1} <= own


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
        (arguments.ranks, "16,0", "whole numbers of at least 1"),
        (arguments.ranks, "few", "whole numbers of at least 1"),
        (arguments.positive, "0", "numbers above 0"),
        (arguments.positive, "inf", "numbers above 0"),
        (arguments.fraction, "5", "between 0 and 1"),
        (arguments.fraction, "nan", "between 0 and 1"),
        (arguments.day, "yesterday", "as 2026-11-01"),
    ],
)
def test_an_error_names_what_was_given_and_what_is_allowed(convert, text, allowed):
    with pytest.raises(argparse.ArgumentTypeError, match=f"{text}.*{allowed}"):
        convert(text)
