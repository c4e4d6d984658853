"""`bundle-check`: is an archive unmodified since it was packed? Checks digests, signature, and records by their files.

It does not import what packs an archive, so that it starts quickly.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path

from analysis import TableError, verify
from analysis.archive import manifest
from analysis.archive.manifest import MANIFEST, SIGNATURE
from analysis.documents import tally
from analysis.finding import SEVERITIES


def declare_bundle_check(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="an archive that `bundle` made, or its unpacked folder")
    parser.add_argument("--sign-key", type=Path, metavar="PUBLIC_KEY", help="it must be signed with this key")


def run_bundle_check(options: argparse.Namespace) -> int:
    """Print each file that differs, is missing or is extra, what `verify` finds, and who signed.

    Returns 1 if anything is wrong.
    """
    packed = manifest.read_packed(options.file)
    if MANIFEST not in packed.outside:
        raise TableError(f"{options.file}: no {MANIFEST} in it: not an archive that `bundle` made")
    text = packed.outside[MANIFEST].decode(errors="replace")
    stated = manifest.parse(text, f"{options.file}: {MANIFEST}")
    wrong = packed.extra + manifest.differences(stated, packed.digests)
    for line in wrong:
        print(line)
    print(f"{options.file}: {len(stated)} files in the {MANIFEST}, {len(wrong) or 'none'} wrong")
    findings = [*verify.verify(verify.in_archive(packed.launches))]
    for finding in findings:
        print(f"{finding.severity} {finding.rule}: {finding.place}: {finding.stated}; follows: {finding.follows}")
    print(f"launches: {tally([finding.severity for finding in findings], SEVERITIES)}")
    signed = _signature(packed.outside, manifest.signer(text), options.sign_key)
    return 1 if wrong or not signed or any(finding.severity == "serious" for finding in findings) else 0


def _signature(files: Mapping[str, bytes], signer: str | None, key: Path | None) -> bool:
    """Print what the signature shows, and return whether it suffices. signer: the key that the manifest names."""
    if SIGNATURE not in files:
        if signer:
            print(f"missing: {SIGNATURE}: the {MANIFEST} says that it was signed with {signer}")
        else:
            print("not signed: this shows damage by accident, not a change on purpose")
        return key is None and not signer
    by, text = manifest.verify(files[MANIFEST], files[SIGNATURE], key)
    print(f"signature: {text}")
    if by and signer not in (None, by):
        print(f"it is by another key than {signer}, with which the {MANIFEST} says that it was signed")
        return False
    if by and key is None:
        print("whose key it is, its owner can tell: SIGN_KEY=author.pub checks that it is theirs")
    return by is not None
