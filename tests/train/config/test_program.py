import os

import pytest

from train.config import printed, program, quoted
from train.config.checks import ConfigError
from train.config.compose import load

VALUES = {"ranks": 4, "hosts": "a b; rm -rf c", "seed": 7}


def test_placeholders_are_filled_word_by_word():
    argv = program.filled("run -np {ranks} -H {hosts} 'a b {seed}' {} {x: 1}", VALUES)
    assert argv == ["run", "-np", "4", "-H", "a b; rm -rf c", "a b 7", "{}", "{x:", "1}"]


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("command", "", "give a command: make scaling COMMAND=..."),
        ("command", "run 'a", "No closing quotation; it is split"),
        ("command", "run {rank}", "no placeholder: rank"),
        ("until", "done (", "not a regular expression"),
        ("rate", "[0-9]", "put {rate} where the number is"),
        ("command", "run {ranks}", r"the command has no {batch_per_rank} and no {global_batch}: ARGS=program.scaling="),
    ],
)
def test_a_command_that_cannot_run_and_a_pattern_that_finds_no_rate_are_named_by_their_keys(key, value, problem):
    with pytest.raises(ConfigError, match=rf"program.\w+=.*: {problem}"):
        load(["experiment=scaling", f"program.{key}={quoted(value)}"])


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("mpirun -np 4 ./lmp -in in.lj", "lmp"),
        ("horovodrun -np {ranks} python3 train/my_train.py --batch 3", "my_train"),
        ("bash -c 'OMP_NUM_THREADS=2 /opt/bin/solver.x > log'", "solver"),
        ("bash -c \"sed 's/^2/{ranks}/; 12s/a/b/' in > HPL.dat && mpirun -np {ranks} ls && cat HPL.out\"", "ls"),
        ("torchrun --standalone --nproc_per_node={ranks} train.py config/shakespeare.py", "train"),
        ("srun.real -n {ranks} /opt/shallow_water", "shallow_water"),  # sh is a shell
    ],
)
def test_a_program_is_called_by_its_own_name_and_not_by_its_launchers(command, name):
    assert program.name(command) == name


def test_a_file_of_a_program_is_read_as_keys(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("command: mpirun ./solver\nskip: 3\nfolder: out\nversion: 2026-13-01\neach_rank: true\n")
    folder = str(tmp_path)
    assert program.file_keys(path) == {
        "command": "mpirun ./solver", "skip": 3, "folder": f"{folder}/out", "here": folder,
        "version": "2026-13-01", "each_rank": True,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (None, "no such file; make scaling WRITE="),
        ("comand: x", "comand: no such key; allowed are command, name, rate"),
        ("just text", "allowed are lines as"),
        ("a: [", "while parsing"),
        (os.mkfifo, "not a regular file"),
        ("command: x\n" * 10_000, "more than 0 MB, which no such file has"),
        ("name: &a x\nversion: *a", "line 1: aliases .* are not read; write the value itself"),
        ("name: !!int x", "line 1: aliases .* and tags .* are not read"),
        ("name: " + "[" * 33 + "]" * 33, "line 1: nested more than 32 levels deep"),
        ("[" * 2_000, "nested more than 32"),
        ("skip: " + "9" * 5000, "Exceeds the limit"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path, text, problem):
    path = tmp_path / "mine.yaml"
    if callable(text):
        text(path)
    elif text is not None:
        path.write_text(text)
    with pytest.raises(ValueError, match=rf"PROGRAM={path}: .*{problem}"):
        program.file_keys(path)


def test_the_choices_of_several_rates_are_those_that_are_computed():
    assert tuple(printed.PICKS) == program.PICKED


def test_a_first_file_can_be_used_as_it_is(tmp_path, monkeypatch, capsys):
    path = tmp_path / "mine.yaml"
    monkeypatch.setattr("sys.argv", ["program", str(path)])
    assert program.main() == 0
    keys = {key: program.override_value(value) for key, value in program.file_keys(path).items()}
    config = load(["experiment=scaling", *(f"program.{key}={value}" for key, value in keys.items())])
    assert config.program.scaling == "strong"
    assert program.main() == 2  # it replaces nothing
    assert "File exists" in capsys.readouterr().err
