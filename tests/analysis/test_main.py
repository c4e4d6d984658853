import subprocess
import sys

import pytest

from analysis.__main__ import COMMANDS, main, module


def loaded(code):
    """The top-level modules that a fresh Python has loaded after running `code`."""
    listing = "; import sys; print(*{name.partition('.')[0] for name in sys.modules})"
    return set(
        subprocess.run(
            [sys.executable, "-c", code + listing], capture_output=True, text=True, check=True
        ).stdout.split()
    )


@pytest.mark.slow
def test_help_loads_no_library_and_names_every_command(capsys):
    assert not {"numpy", "pandas", "matplotlib", "scipy"} & loaded("import analysis.__main__")
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in COMMANDS)


@pytest.mark.slow
def test_no_command_needs_what_only_training_needs():
    modules = ", ".join(map(module, COMMANDS))
    heavy = {"tensorflow", "tf_keras", "keras", "horovod", "hydra", "omegaconf", "wandb", "sklearn"}
    assert not heavy & loaded(f"import {modules}; from analysis.figures import registry")


@pytest.mark.slow
def test_no_command_that_prints_text_loads_what_draws_or_simulates():
    draw = ("appendix", "bundle", "draw", "evaluate", "report")
    modules = ", ".join(module(name) for name in COMMANDS if name not in draw)
    assert not {"matplotlib", "fontTools", "jinja2", "scipy"} & loaded(f"import {modules}")


@pytest.mark.parametrize("argv", [[], ["drawn"]])
def test_a_missing_or_unknown_command_is_an_error(argv, capsys):
    with pytest.raises(SystemExit) as stop:
        main(argv)
    assert stop.value.code == 2
    assert "usage: python -m analysis" in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_its_help(command, capsys):
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])
    assert stop.value.code == 0
    assert "usage" in capsys.readouterr().out
