import subprocess
import sys

import psutil
import pytest

from train.launch.start import init

pytestmark = pytest.mark.slow


def start(*command: str, before: str = "") -> subprocess.Popen:
    """Run a command under `init`, after these lines of Python."""
    argv = init.command(sys.executable, command)
    if before:
        code = f"import sys; sys.path.insert(0, {init.__file__.rpartition('/')[0]!r})\nimport init\n{before}"
        argv = [sys.executable, "-c", f"{code}\nsys.exit(init.run({list(command)!r}, client=False))"]
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize(
    ("command", "status"), [("exit 3", 3), ("kill -9 $$", 137), ("true", 0), ("read line; exit $?", 1)]
)
def test_the_exit_status_is_that_of_the_command_as_a_shell_gives_it(command, status):
    with start("sh", "-c", command) as process:
        assert process.wait(30) == status


def test_a_program_that_does_not_exist_is_named():
    with start("no-such-program") as process:
        assert process.communicate(timeout=30)[1] == "no-such-program: No such file or directory\n"
        assert process.returncode == 127


def test_a_process_that_detaches_with_an_empty_environment_ends_with_the_command():
    detach = "setsid env -i sh -c 'env -i sleep 600 & echo $!; exec sleep 600' & sleep 0.2"
    with start("sh", "-c", detach) as process:
        detached = psutil.Process(int(process.stdout.readline()))
        assert process.wait(30) == 0
        assert not detached.is_running()


@pytest.mark.parametrize("ending", ["its input ends", "it gets SIGTERM"])
@pytest.mark.parametrize("ignores", [False, True], ids=["obeys", "ignores SIGTERM"])
def test_it_ends_the_command_when(ending, ignores):
    script = f"{'trap : TERM; ' * ignores}echo $$; while :; do sleep 0.05; done"
    with start("sh", "-c", script, before="init.GRACE_S = 0.3") as process:
        child = psutil.Process(int(process.stdout.readline()))
        if ending == "its input ends":
            process.stdin.close()
        else:
            process.terminate()
        assert process.wait(30) == (137 if ignores else 143)
        assert not child.is_running()
