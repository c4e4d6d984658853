"""The commands of the builders, and that Dockerfile, singularity.def and .dockerignore agree."""

import re
import subprocess
from importlib.metadata import packages_distributions

import pytest

from containers import build
from tests.helpers import kit
from tests.helpers.path_programs import write_program

BUILD = build.Build(
    "cpu", "debian:bookworm-slim", "debian:bookworm-slim", "v1", "abc changed", "sha256:12", "", 1700000000
)
DOCKERFILE, DEFINITION, IGNORE = (
    (build.ROOT / name).read_text() for name in ("Dockerfile", "singularity.def", ".dockerignore")
)


@pytest.mark.parametrize("builder", build.BUILDERS)
def test_an_image_is_named_and_gets_every_argument_of_the_dockerfile(builder):
    command = build.image_command(builder, BUILD, ["--network=host"])
    output = {command[i + 1].partition("=")[0] for i, word in enumerate(command) if word == "--build-arg"}
    assert output - {"SOURCE_DATE_EPOCH"} == set(re.findall(r"^ARG (\w+)", DOCKERFILE, re.MULTILINE))
    assert ("--timestamp" if builder != "docker" else "SOURCE_DATE_EPOCH=1700000000") in command
    assert "CREATED=2023-11-14T22:13:20Z" in command
    assert command[:4] == [builder, "build", "--tag", "kit:cpu"]
    assert command[-2:] == ["--network=host", str(build.ROOT)]
    assert "COMMIT=abc changed" in command


def test_a_sif_gets_every_argument_of_its_definition():
    placeholders = set(re.findall(r"\{\{ (\w+) \}\}", DEFINITION))
    assert placeholders == set(BUILD.definition_arguments())
    assert placeholders == set(re.findall(r"^    (\w+)=", DEFINITION, re.MULTILINE))  # all have defaults


@pytest.mark.parametrize(
    ("base", "bootstrap", "source"),
    [
        ("mirror.example:5000/debian", "docker", "mirror.example:5000/debian"),
        ("docker-archive:/tmp/base.tar", "docker-archive", "/tmp/base.tar"),
        ("localimage:base.sif", "localimage", "base.sif"),
    ],
)
def test_the_base_of_a_sif_may_be_a_file(base, bootstrap, source):
    arguments = build.Build("cpu", base, "", "v1", "abc", "unknown", "", 0).definition_arguments()
    assert (arguments["BOOTSTRAP"], arguments["BASE"], arguments["BASE_NAME"]) == (bootstrap, source, base)


@pytest.mark.slow
def test_only_cuda_is_compiled_with_a_toolkit(monkeypatch):
    monkeypatch.setenv("TOOLKIT", "mirror.example/cuda:12.5.1")
    assert build.plan("cuda", None).toolkit == "mirror.example/cuda:12.5.1"
    assert build.plan("cpu", None).toolkit == build.plan("cpu", None).base
    monkeypatch.delenv("TOOLKIT")
    assert build.plan("cuda", None).toolkit == build.TOOLKIT


# What a CUDA toolkit is compiled with, in an image with these folders of /usr/local: NVIDIA's links lead to
# /etc/alternatives, which is not that of the image that is being built.
LAYOUTS = [
    (["cuda-12.5"], "cuda-12.5"),
    (["cuda-12.5", "cuda-12.10", "cuda-13.0"], "cuda-12.10"),
    (["cuda-11.8", "cuda-13.0"], None),
]


@pytest.mark.slow
@pytest.mark.parametrize(("folders", "used"), LAYOUTS)
def test_the_newest_cuda_12_of_a_toolkit_image_compiles_horovod(tmp_path, folders, used):
    local = tmp_path / "toolkit/usr/local"
    for folder in folders:
        write_program(local / folder / "bin/nvcc", "")
        (local / folder / "targets/x86_64-linux/include").mkdir(parents=True)
        (local / folder / "include").symlink_to("targets/x86_64-linux/include")
    for link in ("cuda", "cuda-12"):
        (local / link).symlink_to(f"/etc/alternatives/{link}")
    text = (build.ROOT / "containers/install.sh").read_text()
    for name in ("kit", "venv"):
        text = text.replace(f"{name}=/opt/{name}", f"{name}={tmp_path}/{name}")
    install = write_program(tmp_path / "install.sh", text.replace("toolkit=/toolkit", f"toolkit={tmp_path}/toolkit"))
    write_program(tmp_path / "kit/requirements/setup.sh", f'echo "${{PATH%%:*}} $CUDAToolkit_ROOT" >{tmp_path}/used')
    write_program(tmp_path / "venv/uv/bin/uv", "mkdir -p lib")
    done = subprocess.run([install, "environment", "cuda"], cwd=tmp_path / "venv", capture_output=True, text=True)
    if used:
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "used").read_text().split() == [f"{local}/{used}/bin", f"{local}/{used}"]
    else:
        assert done.stderr == f"no cuda-12.*/bin/nvcc in {local}: set TOOLKIT to an image with CUDA 12\n"


def test_a_sif_from_an_oci_image_needs_no_arguments():
    command = build.sif_command("apptainer", BUILD, "docker-archive:x.tar", [])
    assert command == ["apptainer", "build", "--force", str(build.IMAGES / "kit-cpu.sif"), "docker-archive:x.tar"]


@pytest.mark.slow
def test_an_image_gets_the_files_that_git_tracks_as_they_are_and_no_others(tmp_path, monkeypatch):
    def git(*arguments):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments], cwd=tmp_path, check=True)

    monkeypatch.setattr(build, "ROOT", tmp_path)
    for name in ("Dockerfile", "train/a.py", "train/gone.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("committed")
    with build.context(0) as folder:
        assert folder == tmp_path  # an archive without git
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "all")
    (tmp_path / "train/a.py").write_text("changed")
    (tmp_path / "train/gone.py").unlink()
    (tmp_path / "train/untracked.py").write_text("")
    with build.context(1700000000) as folder:
        files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
        assert {name: path.read_text() for name, path in files.items()} == {
            "Dockerfile": "committed",
            "train/a.py": "changed",
        }
        assert {path.stat().st_mtime for path in files.values()} == {1700000000}


WITHOUT = """
from importlib.machinery import PathFinder
find_spec = PathFinder.find_spec
PathFinder.find_spec = lambda name, *more: None if name in {names} else find_spec(name, *more)
"""


@pytest.mark.end_to_end
@pytest.mark.on_change_of("containers/install.sh", "train/models/", "train/loop/", "train/input/", "train/rank/")
def test_a_rank_trains_without_the_packages_that_an_image_lacks(tmp_path):
    install = (build.ROOT / "containers/install.sh").read_text()
    removed = {*re.search(r"pip uninstall .* --python \$venv (.*)", install)[1].split()}
    modules = {name for name, packages in packages_distributions().items() if removed & {*map(str.lower, packages)}}
    assert {"keras", "fontTools"} <= modules
    (tmp_path / "sitecustomize.py").write_text(WITHOUT.format(names=modules))
    command = kit.launch_command(tmp_path / "results", "nodes=2", "--only=tiny-nodes2")
    kit.succeed(*command, variables={"PYTHONPATH": str(tmp_path)})
    [run] = kit.records(tmp_path / "results")
    assert (run.status, run.environment.variables["PYTHONPATH"]) == ("complete", str(tmp_path))


def test_both_kinds_of_image_contain_the_same_files_of_the_kit():
    final = DEFINITION[DEFINITION.index("Stage: final") :]
    copied = set(re.findall(r"^    (\S+) /opt/kit/\S+$", final, re.MULTILINE))
    assert copied == set(re.findall(r"^!(\S+)$", IGNORE, re.MULTILINE))
    assert all((build.ROOT / name).exists() for name in copied)


@pytest.mark.parametrize(
    ("version", "buildx", "error"),
    [
        ("20.10.24+dfsg1", "", None),
        ("28.2.2", "github.com/docker/buildx v0.24.0", None),
        ("", "", None),
        ("28.2.2", "", r"docker client \(28\.2\.2\) has no plugin buildx.*CONTAINER=podman"),
    ],
)
def test_docker_builds_with_buildkit_and_a_newer_one_needs_its_plugin(monkeypatch, version, buildx, error):
    outputs = {("docker", "version"): version, ("docker", "buildx"): buildx}
    monkeypatch.setattr(build, "output", lambda *command: outputs[command[:2]])
    if error:
        with pytest.raises(SystemExit, match=error):
            build.buildkit("docker")
    else:
        assert build.buildkit("docker") == {"DOCKER_BUILDKIT": "1"}
    assert build.buildkit("podman") == {}


@pytest.mark.slow
def test_the_first_engine_that_works_is_taken_and_others_are_listed_with_their_messages(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CONTAINER", raising=False)
    write_program(tmp_path / "docker", "echo Client:\necho 'Cannot connect to the Docker daemon' >&2\nexit 1")
    with pytest.raises(SystemExit) as error:
        build.chosen_engine(("docker", "podman"), "make image")
    assert str(error.value).splitlines() == [
        "error: make image needs docker or podman; on this machine",
        "  docker: Cannot connect to the Docker daemon",
        "  podman: not installed",
    ]
    write_program(tmp_path / "podman", "echo Client:")
    assert build.chosen_engine(build.BUILDERS, "make image") == "podman"


def test_the_engine_that_is_named_is_taken(monkeypatch):
    monkeypatch.setattr(build, "first_that_works", lambda commands, purpose: commands[-1])
    monkeypatch.setenv("CONTAINER", "podman")
    assert build.chosen_engine(build.BUILDERS, "make image") == "podman"
    monkeypatch.setenv("CONTAINER", "singularity")
    with pytest.raises(SystemExit, match="CONTAINER=singularity: for make image allowed are docker, podman, buildah"):
        build.chosen_engine(build.BUILDERS, "make image")
