"""`bundle-check`: is an archive unmodified since it was packed? Checks digests, signature, and records by their files.

It does not import what packs an archive, so that it starts quickly.
"""

import argparse
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from analysis import TableError, verify
from analysis.archive import manifest
from analysis.archive.manifest import MANIFEST, SIGNATURE
from analysis.documents import tally
from analysis.finding import SEVERITIES
from common.terminal import show


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="an archive that `bundle` made, or its unpacked folder")
    parser.add_argument("--sign-key", type=Path, metavar="PUBLIC_KEY", help="it must be signed with this key")


NOT_COMPARED = "none of its records was made again from its files"


def run(options: argparse.Namespace) -> int:
    """Print what `failures` finds; returns 1 if there is any."""
    problems = failures(options.file, options.sign_key)
    if problems:
        show(f"{options.file}: failed: {'; '.join(problems)}")
    return int(bool(problems))


def failures(file: Path, key: Path | None) -> list[str]:
    """Print each file that differs, is missing or is extra, what `verify` finds, and who signed; return what is wrong.

    key: the public key that must have signed.
    """
    packed = manifest.read_packed(file)
    if MANIFEST not in packed.outside:
        raise TableError(f"{file}: no {MANIFEST} in it: not an archive that `bundle` made")
    text = packed.outside[MANIFEST].decode(errors="replace")
    stated = manifest.parse(text, f"{file}: {MANIFEST}")
    harmless = manifest.harmless(stated, packed, file.is_dir())
    show(*(f"harmless: {name}: {difference}" for name, difference in sorted(harmless.items())))
    digests = {name: sha256 for name, sha256 in packed.digests.items() if name not in harmless}
    digests |= {name: stated[name] for name in harmless if name in stated}
    wrong = packed.extra + manifest.differences(stated, digests)
    show(*wrong, f"{file}: {len(stated)} files in the {MANIFEST}, {len(wrong) or 'none'} wrong")
    verified = verify.verify(verify.in_archive(packed.launches))
    for finding in verified.findings:
        show(f"{finding.severity} {finding.rule}: {finding.place}: {finding.stated}; follows: {finding.follows}")
    show(f"launches: {tally([finding.severity for finding in verified.findings], SEVERITIES)}", str(verified))
    kinds = Counter(line.partition(":")[0] for line in wrong)  # differs, missing, extra
    return [
        *(f"files: {', '.join(f'{count} {kind}' for kind, count in kinds.items())}" for _ in wrong[:1]),
        *filter(None, [_signature(packed.outside, manifest.signer(text), key)]),
        *(f"{len(verified.serious)} serious findings in its records" for _ in verified.serious[:1]),
        *([] if verified.remade else [NOT_COMPARED]),
    ]


def _signature(files: Mapping[str, bytes], signer: str | None, key: Path | None) -> str:
    """Print what the signature shows, and return what is wrong with it, or "". signer: the key in the manifest."""
    if SIGNATURE not in files:
        if signer:
            show(f"missing: {SIGNATURE}: the {MANIFEST} says that it was signed with {signer}")
        else:
            show("not signed: this shows damage by accident, not a change on purpose")
        return f"no {SIGNATURE}" if signer else "" if key is None else f"it is not signed, and SIGN_KEY={key} must have"
    by, text = manifest.verify(files[MANIFEST], files[SIGNATURE], key)
    show(f"signature: {text}")
    if by and signer not in (None, by):
        show(f"it is by another key than {signer}, with which the {MANIFEST} says that it was signed")
        return "it is signed by another key than it says"
    if by and key is None:
        show("whose key it is, its owner can tell: SIGN_KEY=author.pub checks that it is theirs")
    return "" if by else "the signature is not good" if key is None else f"it is not signed by SIGN_KEY={key}"
