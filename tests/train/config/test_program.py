import pytest

from train.config import program
from train.config.checks import ConfigError
from train.config.compose import load

VALUES = {"ranks": 4, "hosts": "a b; rm -rf c", "seed": 7}


def test_placeholders_are_filled_word_by_word():
    argv = program.filled("run -np {ranks} -H {hosts} 'a b {seed}' {} {x: 1}", VALUES)
    assert argv == ["run", "-np", "4", "-H", "a b; rm -rf c", "a b 7", "{}", "{x:", "1}"]


def test_hosts_with_their_processes():
    assert program.host_slots(["a", "b"], 2) == "a:2,b:2"
    assert program.host_slots(["localhost", "localhost"], 2) == "localhost:4"


@pytest.mark.parametrize(
    ("check", "text", "problem"),
    [
        (program.command_problem, "run -np {ranks} {}", ""),
        (program.command_problem, "", "give a command: make scaling COMMAND=..."),
        (program.command_problem, "run {rank} {nodes}", "no placeholder: rank; allowed are {ranks}, {nodes}"),
        (program.command_problem, "run 'a", "No closing quotation; it is split"),
        (program.rate_problem, None, ""),
        (program.rate_problem, "rate: ([0-9.]+)", ""),
        (program.rate_problem, "rate: [0-9.]+", "its first group must be the rate"),
        (program.rate_problem, "rate: ([0-9.]+", "not a regular expression"),
    ],
)
def test_a_command_that_cannot_run_and_an_expression_that_finds_no_rate_are_named(check, text, problem):
    result = check(text)
    assert result.startswith(problem)
    assert bool(result) == bool(problem)


@pytest.mark.parametrize(("key", "value"), [("command", "run {rank}"), ("rate", "[0-9]")])
def test_the_configuration_names_the_key(key, value):
    with pytest.raises(ConfigError, match=rf"program.{key}=.*: (no placeholder: rank|its first group)"):
        load(["experiment=scaling", f"program.{key}='{value}'"])
