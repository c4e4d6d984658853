"""The packages of a set-up: uv.lock pins each file by its hash, and only two packages are built here."""

import re
import shutil
import subprocess
import tomllib
import zipfile

import pytest
from packaging import tags
from packaging.utils import parse_wheel_filename

from tests.helpers import ROOT

PACKAGES = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
PLATFORMS = [f"manylinux{name}_x86_64" for name in (*(f"_2_{minor}" for minor in range(39, 4, -1)), 2014, 2010, 1)]


def files(package):
    return [*package.get("wheels", []), *([package["sdist"]] if "sdist" in package else [])]


def test_every_file_has_a_hash_and_no_address():
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


@pytest.mark.slow
def test_another_file_with_the_name_of_a_package_is_refused(tmp_path):
    uv = shutil.which("uv", path=f"{ROOT / '.venv/uv/bin'}:{ROOT / '.venv/bin'}") or shutil.which("uv")
    if not uv:
        pytest.skip("no uv: make setup installs it where there is none")
    [package] = [package for package in PACKAGES if package["name"] == "absl-py"]
    [wheel] = package["wheels"]
    info = f"absl_py-{package['version']}.dist-info"
    with zipfile.ZipFile(tmp_path / wheel["path"], "w") as archive:
        archive.writestr("absl/__init__.py", "raise SystemExit('run')\n")
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: absl-py\nVersion: {package['version']}\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    (tmp_path / "requirements.txt").write_text(f"absl-py=={package['version']} --hash={wheel['hash']}\n")
    script = (ROOT / "requirements/setup.sh").read_text()
    [install] = re.findall(r'pip install --python "\$venv" .*', script)
    assert "--no-deps --require-hashes" in install
    command = [uv, "pip", "install", "--no-index", "--find-links", tmp_path, "--target", tmp_path / "site", "--no-deps"]
    command += ["--require-hashes", "--no-cache", "-r", tmp_path / "requirements.txt"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode
    assert "Hash mismatch" in result.stderr
    assert not (tmp_path / "site/absl").exists()
