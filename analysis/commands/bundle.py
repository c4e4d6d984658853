"""`bundle`: one archive for an artifact reviewer: records, figures and the page, with the SHA-256 of each file.

The same records give the same bytes; so does a signature, unless the key is of the kind ecdsa.
"""

import argparse
import contextlib
import gzip
import io
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from string import Template

from analysis import TableError, documents
from analysis.archive import Collected, collect, manifest
from analysis.archive.manifest import MANIFEST, OUTSIDE, ROOT, SIGNATURE
from analysis.commands import arguments, draw, report
from analysis.evaluation import read_contents
from analysis.judged_claims import judge
from analysis.study import Study
from analysis.timeline import find_launches, load_launch
from analysis.timeline.timeline_text import write_trace
from common.terminal import show
from record import run_files as files
from record.schema import RunRecord


def archive(folder: Path) -> bytes:
    """Return the folder as a compressed tar, without owners and times, so that the same files give the same bytes.

    Sorted, the manifest and its signature last.
    """
    paths = [path for path in folder.rglob("*") if path.is_file()]
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=0) as compressed:
        with tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for path in sorted(paths, key=lambda path: (path.name in OUTSIDE and path.parent == folder, path)):
                entry = tarfile.TarInfo(f"{ROOT}/{path.relative_to(folder)}")
                entry.size, entry.mode = path.stat().st_size, 0o644
                with path.open("rb") as file:
                    tar.addfile(entry, file)
    return packed.getvalue()


def seal(folder: Path, key: Path | None) -> None:
    """Write the manifest of all files in the folder, as the last step, and sign it if there is a key.

    Raises TableError where it cannot sign.
    """
    paths = [path for path in folder.rglob("*") if path.is_file()]
    digests = {path.relative_to(folder).as_posix(): manifest.digest(path.read_bytes()) for path in paths}
    text = manifest.text(digests, manifest.fingerprint(key) if key else None).encode()
    signature = manifest.sign(text, key) if key else None
    (folder / MANIFEST).write_bytes(text)
    if signature:
        (folder / SIGNATURE).write_bytes(signature)


def pack(collected: Collected, key: Path | None = None) -> bytes:
    """Return the archive of a collection.

    Figures and page are made from the records as they are packed. Raises TableError where the manifest cannot be
    signed.
    """
    with tempfile.TemporaryDirectory() as stage:
        folder = Path(stage)
        for path, content in (collected.records | collected.attachments).items():
            files.write_file(folder / "results" / path, content)
        with contextlib.chdir(folder):  # figures and page name records by their paths in the archive
            study = Study(Path("results"))
            show(*study.trust(), f"figures, then {manifest.CLAIMS}:")
            report.write_page(study, Path("report.html"), Path("figures"))
            _write_traces(study.records, Path("figures"))
            Path(manifest.CLAIMS).write_text(documents.text(judge(read_contents().claims, study)) + "\n")
            draw.show_file(manifest.CLAIMS)
            runs = dict(study.records)  # read here: their paths are those in the archive
        readme = Template(Path(manifest.__file__).with_name("README.txt").read_text())
        (folder / "README.txt").write_text(readme.substitute(namespace=manifest.NAMESPACE))
        _describe(folder, runs)
        seal(folder, key)
        return archive(folder)


def _write_traces(records: Mapping[str, RunRecord], folder: Path) -> None:
    """Write the trace of each launch with a timeline whose files are complete; `collect` names the missing files."""
    for path in find_launches(records):
        with contextlib.suppress(TableError):
            write_trace(load_launch(path, records[str(path)]), folder)


def _describe(folder: Path, runs: Mapping[str, RunRecord]) -> None:
    """Write the description of an archive for programs: a Process Run Crate."""
    from analysis.archive import crate  # slow to import

    names = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    (folder / crate.NAME).write_bytes(crate.metadata(names, runs))


def declare(parser: argparse.ArgumentParser) -> None:
    arguments.add(parser, "--results")
    parser.add_argument("--scrub", action="store_true", help="without names, paths, addresses, free text")
    parser.add_argument("--sign-key", type=Path, metavar="KEY", help="sign the manifest with this SSH key")
    arguments.add(parser, "--out", default=Path("figures/bundle.tar.gz"))


def _confirmed(names: list[str]) -> bool:
    """Print the names that scrubbed records still hold; returns the answer from a terminal, True without one."""
    show(
        "The archive will hold these names of yours. Does one of them name a person, a host or a site?",
        *(f"  {name}" for name in names),
        file=sys.stderr,
    )
    if not sys.stdin.isatty():
        return True
    print("Write the archive? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def run(options: argparse.Namespace) -> int:
    """Write the archive and print what is in it; returns the exit status."""
    key = manifest.signing_key(options.sign_key) if options.sign_key else None
    options.out.parent.mkdir(parents=True, exist_ok=True)
    collection = collect(options.results.absolute(), options.scrub)
    show(*(f"left out: {line}" for line in collection.left_out), file=sys.stderr)
    if collection.authors_names and not _confirmed(collection.authors_names):
        return 1
    packed, records = pack(collection, key), len(collection.records)
    files.write_file(options.out, packed, replace=True)
    scrubbed = ", scrubbed" if options.scrub else ""
    show(f"{options.out}: {records} records{scrubbed}, figures, page and {MANIFEST}; {len(packed) / 1e6:.1f} MB")
    unsigned = f"the {MANIFEST} is not signed: SIGN_KEY=~/.ssh/id_ed25519 signs it"
    show(f"{SIGNATURE}: signed with {options.sign_key}" if key else unsigned)
    return 0
