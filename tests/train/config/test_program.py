import pytest

from train.config import program
from train.config.checks import ConfigError
from train.config.compose import load

VALUES = {"ranks": 4, "hosts": "a:2,b:2", "seed": 7}


def test_placeholders_are_filled_word_by_word():
    argv = program.filled("run -np {ranks} -H {hosts} 'a b {seed}' {} {x: 1}", VALUES)
    assert argv == ["run", "-np", "4", "-H", "a:2,b:2", "a b 7", "{}", "{x:", "1}"]


def test_a_value_is_no_more_than_a_word():
    assert program.filled("run {hosts}", {"hosts": "a b; rm -rf c"}) == ["run", "a b; rm -rf c"]


def test_hosts_with_their_processes():
    assert program.host_slots(["a", "b"], 2) == "a:2,b:2"
    assert program.host_slots(["localhost", "localhost"], 2) == "localhost:4"


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("run -np {ranks} {}", ""),
        ("", "give a command: make scaling COMMAND=..."),
        ("run {rank} {nodes}", "no placeholder: rank; allowed are {ranks}, {nodes}"),
        ("run 'a", "No closing quotation; it is split"),
    ],
)
def test_what_cannot_be_run_is_named(command, problem):
    result = program.command_problem(command)
    assert result.startswith(problem)
    assert bool(result) == bool(problem)


@pytest.mark.parametrize(
    ("rate", "problem"),
    [
        (None, ""),
        ("rate: ([0-9.]+)", ""),
        ("rate: [0-9.]+", "its first group must be the rate"),
        ("rate: ([0-9.]+", "not a regular expression"),
    ],
)
def test_what_finds_no_rate_is_named(rate, problem):
    result = program.rate_problem(rate)
    assert result.startswith(problem)
    assert bool(result) == bool(problem)


def test_the_configuration_names_the_key():
    with pytest.raises(ConfigError, match=r"program.command=run \{rank\}: no placeholder: rank"):
        load(["experiment=scaling", "program.command='run {rank}'"])
