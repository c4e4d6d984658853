"""The packages of a set-up: uv.lock pins each file by its hash, and only two packages are built here."""

import re
import tomllib

import pytest
from packaging import tags
from packaging.utils import parse_wheel_filename

from tests.helpers import ROOT

PACKAGES = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
PLATFORMS = [f"manylinux{name}_x86_64" for name in (*(f"_2_{minor}" for minor in range(39, 4, -1)), 2014, 2010, 1)]


def files(package):
    return [*package.get("wheels", []), *([package["sdist"]] if "sdist" in package else [])]


def test_every_file_has_a_hash_which_the_set_up_requires_and_no_address():
    [install] = re.findall(r'pip install --python "\$venv" .*\n.*', (ROOT / "requirements/setup.sh").read_text())
    assert "--no-deps --require-hashes" in install
    for package in PACKAGES:
        for file in files(package):
            assert re.fullmatch("sha256:[0-9a-f]{64}", file["hash"]), package["name"]
            assert "/" not in file["path"]


@pytest.mark.parametrize("minor", [11, 12, 13])
def test_only_these_run_code_when_they_are_installed(minor):
    """All others have a wheel, which is unpacked."""
    supported = {*tags.cpython_tags((3, minor), platforms=PLATFORMS)}
    supported |= {*tags.compatible_tags((3, minor), f"cp3{minor}", PLATFORMS)}
    built = {
        package["name"]
        for package in PACKAGES
        if files(package)
        and not any(parse_wheel_filename(wheel["path"])[3] & supported for wheel in package.get("wheels", []))
    }
    assert built == {"antlr4-python3-runtime", "horovod"}
