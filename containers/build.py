"""Build an image of the kit: OCI from the Dockerfile, SIF from singularity.def or from an OCI image.

    python -m containers.build image cpu            with docker, podman or buildah: CONTAINER=, or whichever works
    python -m containers.build sif cpu              with singularity or apptainer only
    python -m containers.build sif cpu --from-oci   from the image that `image` built

Site-specific options (a proxy, a mirror, a certificate) go into BUILD_OPTIONS, for a SIF into SIF_OPTIONS; they are
passed to the builder unchanged.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from common.programs import finished
from record import this_kit
from record.this_kit import ROOT

VARIANTS = ("cpu", "mvapich2", "cuda")
BUILDERS = ("docker", "podman", "buildah")
BASE = "docker.io/library/debian:bookworm-slim"
TOOLKIT = "docker.io/nvidia/cuda:12.5.1-devel-ubuntu22.04"  # only used to compile cuda; nothing of it is kept
BOOTSTRAPS = ("docker-archive", "oci-archive", "localimage")  # prefixes of BASE allowed for a SIF
IMAGES = ROOT / "images"
# The subcommand that fails if an engine does not work: docker asks its daemon, the others their storage.
_SELF_TESTS = {"docker": "version", "podman": "info", "buildah": "info"}
_WITHIN_S = 300.0  # the storage of an engine may be slow
_BUILDX_SINCE = 23  # the first version of docker's client that builds with the plugin buildx


@dataclass(frozen=True)
class Build:
    """The inputs of an image other than the code."""

    variant: str
    base: str
    toolkit: str
    version: str
    commit: str  # "<commit>", and " changed" if the code differs from it, " unchecked" if that is unknown; or ""
    base_digest: str
    source: str  # the URL of the repository, or ""
    epoch: int  # when it is said to be made, in s: SOURCE_DATE_EPOCH, or the time of the commit

    def arguments(self) -> dict[str, str]:
        """Return the build arguments for the Dockerfile."""
        return {
            "VARIANT": self.variant,
            "BASE": self.base,
            "TOOLKIT": self.toolkit,
            "VERSION": self.version,
            "COMMIT": self.commit,
            "BASE_NAME": self.base,
            "BASE_DIGEST": self.base_digest,
            "SOURCE": self.source,
            "CREATED": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.epoch)),
        }

    def definition_arguments(self) -> dict[str, str]:
        """Return the build arguments for singularity.def, whose base may be a file, such as docker-archive:FILE."""
        bootstrap, _, source = self.base.partition(":")
        if bootstrap not in BOOTSTRAPS:
            bootstrap, source = "docker", self.base
        arguments = self.arguments() | {"BOOTSTRAP": bootstrap, "BASE": source}
        return {name: value for name, value in arguments.items() if name != "TOOLKIT"}


def image_command(builder: str, build: Build, options: Sequence[str], context: Path = ROOT) -> list[str]:
    """Return the command that builds the OCI image kit:VARIANT. context: the folder of its files."""
    command = [builder, "build", "--tag", f"kit:{build.variant}", "--file", str(context / "Dockerfile")]
    if builder == "docker":
        command += ["--build-arg", f"SOURCE_DATE_EPOCH={build.epoch}"]
    else:
        command += ["--layers", "--format", "docker", "--timestamp", str(build.epoch)]
    for name, value in build.arguments().items():
        command += ["--build-arg", f"{name}={value}"]
    return [*command, *options, str(context)]


def sif_command(engine: str, build: Build, source: str | None, options: Sequence[str]) -> list[str]:
    """Return the command that builds images/kit-VARIANT.sif from an OCI archive, else from singularity.def."""
    command = [engine, "build", "--force"]
    if source is None:
        for name, value in build.definition_arguments().items():
            command += ["--build-arg", f"{name}={value}"]
    return [*command, *options, str(IMAGES / f"kit-{build.variant}.sif"), source or "singularity.def"]


@contextmanager
def context(epoch: int) -> Iterator[Path]:
    """Return a context with a folder of this code as git has it: no file that it does not track. Without git, ROOT."""
    names = output("git", "-C", str(ROOT), "ls-files", "-z").split("\0")
    if "Dockerfile" not in names:
        yield ROOT
        return
    with tempfile.TemporaryDirectory(prefix="kit-image-") as folder:
        for name in filter(None, names):
            if (ROOT / name).is_file():
                target = Path(folder, name)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, target)
                os.utime(target, (epoch, epoch))
        yield Path(folder)


def output(*command: str) -> str:
    """Return what a command prints; nothing if it fails."""
    with suppress(OSError):  # it is not installed
        done = finished(command, _WITHIN_S)
        return "" if done.returncode else done.stdout.strip()
    return ""


def base_digest(builder: str, image: str) -> str:
    """Return the digest of a base image, which is pulled if missing; "unknown" if the builder does not report one."""
    if builder == "buildah":
        inspect = ["buildah", "inspect", "--type", "image", image]
    else:
        inspect = [builder, "image", "inspect", image]
    text = output(*inspect)
    if not text:
        subprocess.run([builder, "pull", image], stdout=sys.stderr)
        text = output(*inspect)
    if not text:
        return "unknown"
    image_data = json.loads(text)
    image_data = image_data[0] if isinstance(image_data, list) else image_data
    # An image that was never in a registry has no digest; its ID identifies it.
    repositories = image_data.get("RepoDigests") or []
    return (
        image_data.get("FromImageDigest")
        or next(iter(repositories), "").rpartition("@")[2]
        or image_data.get("Id", "unknown")
    )


def plan(variant: str, builder: str | None) -> Build:
    """Return the inputs of an image of this code. `builder` reports the digest of the base; None: it stays unknown."""
    base = os.environ.get("BASE") or BASE
    toolkit = (os.environ.get("TOOLKIT") or TOOLKIT) if variant == "cuda" else base
    commit, changed = this_kit.commit(untracked=False)  # they are not copied into the image
    state = {True: " changed", False: "", None: " unchecked"}[changed]
    digest = base_digest(builder, base) if builder else "unknown"
    epoch = int(
        os.environ.get("SOURCE_DATE_EPOCH")
        or output("git", "-C", str(ROOT), "log", "-1", "--format=%ct")
        or time.time()
    )
    remote = output("git", "-C", str(ROOT), "config", "remote.origin.url")
    source = re.sub("//[^/@]*@", "//", remote) if ":" in remote else ""  # without a password; no folder of this machine
    return Build(
        variant, base, toolkit, this_kit.version(), f"{commit}{state}" if commit else "", digest, source, epoch
    )


def why_not(command: str) -> str | None:
    """Return why a command does not work on this machine, from its own message; None if it works."""
    if not shutil.which(command):
        return "not installed"
    done = finished([command, _SELF_TESTS.get(command, "--version")], _WITHIN_S)
    lines = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()
    return lines[-1] if done.returncode else None


def first_that_works(commands: Sequence[str], purpose: str) -> str:
    """Return the first of the commands that works on this machine. Exits with the reasons if none does."""
    reasons = {}
    for command in commands:
        if (why := why_not(command)) is None:
            return command
        reasons[command] = why
    sys.exit(
        "\n  ".join(
            [
                f"error: {purpose} needs {' or '.join(commands)}; on this machine",
                *(f"{command}: {why}" for command, why in reasons.items()),
            ]
        )
    )


def chosen_engine(engines: Sequence[str], purpose: str) -> str:
    """Return the engine that CONTAINER= names, else the first that works. Exits with an error if it does not work."""
    engine = os.environ.get("CONTAINER")
    if engine and engine not in engines:
        sys.exit(f"error: CONTAINER={engine}: for {purpose} allowed are {', '.join(engines)}")
    return first_that_works([engine] if engine else engines, purpose)


def buildkit(builder: str) -> dict[str, str]:
    """Return the variables that a builder needs to read the Dockerfile. Exits with an error if it cannot read it.

    Docker's older builder does not know RUN --mount. Clients before version 23 take it unless DOCKER_BUILDKIT is set;
    later ones need the plugin buildx, and without it fall back to the older builder, or fail.
    """
    if builder != "docker":
        return {}
    version = output("docker", "version", "--format", "{{.Client.Version}}")
    major = int(match[0]) if (match := re.match(r"\d+", version)) else 0
    if major >= _BUILDX_SINCE and not output("docker", "buildx", "version"):
        sys.exit(
            f"error: this docker client ({version}) has no plugin buildx, which building the Dockerfile needs. "
            "Install it (Docker's packages: docker-buildx-plugin; Debian 13, Ubuntu: docker-buildx), or build with "
            "another engine: make image CONTAINER=podman"
        )
    return {"DOCKER_BUILDKIT": "1"}


def build_image(variant: str, options: Sequence[str]) -> tuple[int, str]:
    """Build the OCI image; returns the builder's exit status and the image's name."""
    builder = chosen_engine(BUILDERS, "make image")
    environment, build = {**os.environ, **buildkit(builder)}, plan(variant, builder)
    with context(build.epoch) as folder:
        done = subprocess.run(image_command(builder, build, options, folder), cwd=ROOT, env=environment)
    return done.returncode, f"kit:{variant} in {builder}"


def build_sif(variant: str, options: Sequence[str], from_oci: bool) -> tuple[int, str]:
    """Build the SIF; returns the builder's exit status and the file's path."""
    if variant == "cuda" and not from_oci:
        sys.exit(
            "error: VARIANT=cuda: singularity.def has no CUDA toolkit to compile with; on a machine with Docker "
            "run make image VARIANT=cuda, then make sif VARIANT=cuda FROM_OCI=1"
        )
    IMAGES.mkdir(exist_ok=True)
    engine = first_that_works(("apptainer", "singularity"), "make sif")
    build = plan(variant, None)
    with (
        context(build.epoch) as folder,
        tempfile.TemporaryDirectory(dir=IMAGES, prefix=".") as archives,  # also removed after Ctrl-C
    ):
        source = f"docker-archive:{save_image(variant, Path(archives))}" if from_oci else None
        done = subprocess.run(sif_command(engine, build, source, options), cwd=folder)
    return done.returncode, str(IMAGES / f"kit-{variant}.sif")


def save_image(variant: str, folder: Path) -> Path:
    """Save the image kit:VARIANT as an archive in a folder; returns its path."""
    builder = chosen_engine(BUILDERS, "make sif FROM_OCI=1")
    archive = folder / f"kit-{variant}.tar"
    if builder == "buildah":
        save = [builder, "push", f"kit:{variant}", f"docker-archive:{archive}"]
    else:
        save = [builder, "save", f"kit:{variant}", "--output", str(archive)]
    subprocess.run(save, check=True)
    return archive


def main() -> int:
    """Build, and print how long it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("format", choices=("image", "sif"))
    parser.add_argument("variant", help=", ".join(VARIANTS))
    parser.add_argument("--from-oci", action="store_true", help="sif: from the image that `image` built")
    arguments = parser.parse_args()
    if arguments.variant not in VARIANTS:
        sys.exit(f"error: VARIANT={arguments.variant}: allowed are {', '.join(VARIANTS)}")
    options = shlex.split(os.environ.get("BUILD_OPTIONS" if arguments.format == "image" else "SIF_OPTIONS", ""))
    begin = time.monotonic()
    if arguments.format == "image":
        status, image = build_image(arguments.variant, options)
    else:
        status, image = build_sif(arguments.variant, options, arguments.from_oci)
    if status == 0:
        print(f"{image}: built in {time.monotonic() - begin:.0f} s")
    return status


if __name__ == "__main__":
    sys.exit(main())
