import subprocess
import sys

import pytest

from analysis.__main__ import COMMANDS, main, module

DRAW = ("bundle", "draw", "evaluate", "list", "proposal", "report")
TRAINING = {"tensorflow", "tf_keras", "keras", "horovod", "hydra", "omegaconf", "wandb", "sklearn"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("modules", "absent"),
    [
        (["analysis.__main__"], {"numpy", "pandas", "matplotlib", "scipy"}),
        ([*map(module, COMMANDS), "analysis.figures.registry"], TRAINING),
        ([module(name) for name in COMMANDS if name not in DRAW], {"matplotlib", "fontTools", "jinja2", "scipy"}),
    ],
    ids=["list of commands", "any command", "commands that print text"],
)
def test_a_command_loads_only_what_it_needs(modules, absent):
    code = f"import sys, {', '.join(modules)}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not absent & set(process.stdout.split())


@pytest.mark.parametrize(
    ("argv", "status"), [([], 2), (["drawn"], 2), (["--help"], 0), *(([name, "--help"], 0) for name in COMMANDS)]
)
def test_usage_is_shown_on_request_and_for_a_missing_or_unknown_command(argv, status, capsys):
    with pytest.raises(SystemExit) as stop:
        main(argv)
    assert stop.value.code == status
    output = capsys.readouterr()
    assert (
        ("error: " in output.err and "python -m analysis --help" in output.err) if status else "usage: " in output.out
    )


@pytest.mark.slow
def test_a_reader_that_has_enough_ends_the_output_without_a_word():
    command = subprocess.Popen(
        [sys.executable, "-m", "analysis", "claims"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert command.stdout is not None
    command.stdout.close()
    assert command.communicate()[1] == ""
    assert command.returncode == 141  # 128 + SIGPIPE, as in a shell
