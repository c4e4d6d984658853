"""`bundle`: one archive for an artifact reviewer: records, figures and the page, with the SHA-256 of each file.

The same records give the same bytes; so does a signature, unless the key is of the kind ecdsa.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import io
import sys
import tarfile
import tempfile
from pathlib import Path

from analysis import TableError
from analysis.archive import collected, manifest
from analysis.archive.collected import Collected
from analysis.archive.contents import ROOT
from analysis.archive.manifest import MANIFEST, OUTSIDE, SIGNATURE
from analysis.commands import report, timeline
from analysis.timeline import joined
from train.record import files, record

_README = """\
Run records, the figures drawn from them, and a page that shows them beside the published numbers.

report.html   open it in any browser; it needs no network
figures/      PDF, PNG, SVG, and captions.md
results/      one record.json a run; its sha256 field shows damage by accident, its redundancies are checked on reading;
              of a launch with a timeline also the files that figures/timeline-*.json, for Perfetto, is made from
ro-crate-metadata.json  the same for programs: a Process Run Crate, https://w3id.org/ro/wfrun/process/0.5
MANIFEST      SHA-256 of every file: sha256sum --check MANIFEST
MANIFEST.sig  where the author signed the manifest:
              ssh-keygen -Y check-novalidate -n {namespace} -s MANIFEST.sig < MANIFEST

With the kit's code, all of this is checked by `make bundle-check FILE=...`, and the numbers can be made again:
python -m analysis compare --results results
python -m analysis audit results
python -m analysis draw --results results --out redrawn
python -m analysis report --results results --out redrawn/report.html
"""


def archive(folder: Path) -> bytes:
    """The folder as a compressed tar, without owners and times, so that the same files give the same bytes.

    Sorted, the manifest and its signature last.
    """
    there = [path for path in folder.rglob("*") if path.is_file()]
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=0) as compressed:
        with tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for path in sorted(there, key=lambda path: (path.name in OUTSIDE and path.parent == folder, path)):
                entry = tarfile.TarInfo(f"{ROOT}/{path.relative_to(folder)}")
                entry.size, entry.mode = path.stat().st_size, 0o644
                with path.open("rb") as file:
                    tar.addfile(entry, file)
    return packed.getvalue()


def seal(folder: Path, key: Path | None) -> None:
    """Write the manifest of all that is in the folder, last of all, and sign it where there is a key.

    Raises TableError where it cannot sign.
    """
    there = [path for path in folder.rglob("*") if path.is_file()]
    digests = {path.relative_to(folder).as_posix(): manifest.digest(path.read_bytes()) for path in there}
    text = manifest.text(digests, manifest.fingerprint(key) if key else None).encode()
    signature = manifest.sign(text, key) if key else None
    (folder / MANIFEST).write_bytes(text)
    if signature:
        (folder / SIGNATURE).write_bytes(signature)


def pack(results: Path, scrubbed: bool, key: Path | None = None) -> tuple[bytes, int, list[str]]:
    """The archive, the number of its records, and what was left out.

    Figures and page are made from the records as they are packed. Raises TableError where there is no record, or the
    manifest cannot be signed.
    """
    found = collected.collect(results, scrubbed)
    with tempfile.TemporaryDirectory() as stage:
        folder = Path(stage)
        for place, content in (found.records | found.attachments).items():
            record.write_atomically(folder / "results" / place, content)
        with contextlib.chdir(folder):  # so that figures and page name a record by its place in the archive
            report.make(Path("results"), Path("report.html"), Path("figures"))
            _write_traces(Path("results"), Path("figures"))
        (folder / "README.txt").write_text(_README.format(namespace=manifest.NAMESPACE))
        _describe(folder, found)
        seal(folder, key)
        return archive(folder), len(found.records), found.left_out


def _write_traces(results: Path, folder: Path) -> None:
    """Write the trace of each launch with a timeline whose files are all there; of others it was said what is not."""
    for path in joined.find(results):
        with contextlib.suppress(TableError):
            timeline.write(joined.load(path), folder)


def _describe(folder: Path, found: Collected) -> None:
    """Write what other programs read of an archive: a Process Run Crate."""
    from analysis.archive import crate  # it takes longer to import than to be used

    there = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    runs = {f"results/{place.as_posix()}": record.loads(text, str(place)) for place, text in found.records.items()}
    (folder / crate.NAME).write_bytes(crate.metadata(there, runs))


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder of local records")
    parser.add_argument("--scrub", action="store_true", help="without names of hosts and users, paths and addresses")
    parser.add_argument("--sign-key", type=Path, metavar="KEY", help="sign the manifest with this SSH key")
    parser.add_argument("--out", type=Path, default=Path("figures/bundle.tar.gz"), help="default: %(default)s")


def run(options: argparse.Namespace) -> int:
    """Write the archive and say what is in it; the exit status."""
    key = manifest.signing_key(options.sign_key) if options.sign_key else None
    packed, records, left_out = pack(options.results.absolute(), options.scrub, key)
    for line in left_out:
        print(f"left out: {line}", file=sys.stderr)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    files.write_whole(options.out, packed)
    scrubbed = ", scrubbed" if options.scrub else ""
    print(f"{options.out}: {records} records{scrubbed}, figures, page and {MANIFEST}; {len(packed) / 1e6:.1f} MB")
    unsigned = f"the {MANIFEST} is not signed: SIGN_KEY=~/.ssh/id_ed25519 signs it"
    print(f"{SIGNATURE}: signed with {options.sign_key}" if key else unsigned)
    return 0
