"""Records without names: what may leave is listed here, and all other text is replaced by "scrubbed".

Numbers leave, words of the kit's own code, facts about machines and software by their field, and the names that an
author gave to what was measured. A host, or a partition, has one new name in all records.
"""

import contextlib
import functools
import getpass
import ipaddress
import re
import socket
from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from analysis.verify.remade import SCRUBBED
from record import recorded_config
from record import schema as record
from record.schema import RunRecord
from record.this_kit import ROOT

_ANYBODY = {"localhost", "127.0.0.1", "root", "user", ""}  # names of no host and no person
# Fields with facts about machines and software, digests and times.
_FACTS = frozenset(
    (
        *("attachments", "compute_capability", "config_hash", "cpu_flags", "cpu_model", "driver", "ended_at"),
        *("git_commit", "governor", "gpus", "image_digest", "kernel", "kit_version", "mpi", "nccl", "sha256"),
        *("source_digest", "started_at", "transparent_huge_pages", "versions"),
    )
)
# Fields with names that the author gave to what was measured; `name` only in some sections.
_NAMES = {"experiment", "point", "arm", "arm_keys", "swept", "unit"}
_NAMED = {"model", "dataset", "program", "rounds", "gpus"}
# Variables whose values may leave, as far as they are numbers or words of the kit: settings, and the size of a job.
_VARIABLES = re.compile(
    r"(HOROVOD|TF|XLA|CUDA|NCCL|OMP|GOMP|KMP|MKL|ONEDNN|DNNL|MALLOC|UCX|UCC|FI|PSM2?|HFI|MPICH|I_MPI|MV2|MVP)_.+"
    r"|OMPI_MCA_.+|SLURM_.*(NNODES|NUM_|NTASKS|TASKS_PER|CPUS|GPUS|MEM|THREADS|DISTRIBUTION|BIND|FREQ|HINT|EXACT).*"
)
_WORD = re.compile(r"[A-Za-z0-9]+")
_CHUNK = re.compile(r"[^\s,;=\"'()\[\]{}<>|]+")
_NUMBER = re.compile(r"[-+~]?\d+(?:\.\d+){0,2}(?:[eE][-+]?\d+)?[%x:.]?|\W+")  # or a version
_ADDRESS_LIKE = re.compile(r"\d(?:\.\d+){3}|\w:\w+:\w|@|::")
_HOME = re.compile(r"/(?:home|Users|users|u)/([\w.-]+)")
_ADDRESS = re.compile(
    r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+|(?<![\w.])(?!127\.)\d{1,3}(?:\.\d{1,3}){3}(?![\w.])"
    r"|(?<![\w:])[0-9a-fA-F]{2}(?::[0-9a-fA-F]{2}){5}(?![\w:])"
)
_IPV6 = re.compile(r"(?<![\w:.])[0-9a-fA-F]{0,4}(?::[0-9a-fA-F]{0,4}){2,7}(?:\.\d{1,3}){0,3}(?:%\w+)?(?![\w:])")


@functools.cache
def _vocabulary() -> frozenset[str]:
    """Return the words of the kit's own code, in lower case; its conf/ may hold a user's own sites."""
    texts = (path.read_text() for folder in ("train", "record", "common") for path in (ROOT / folder).rglob("*.py"))
    return frozenset({"scrubbed"}.union(word.lower() for text in texts for word in _WORD.findall(text)))


def _is_own(word: str) -> bool:
    """Return whether a word is a number or of the kit, also with a number at its end, as nodes2."""
    return word.isdigit() or not {word.lower(), word.lower().rstrip("0123456789")}.isdisjoint(_vocabulary())


def hosts(run: RunRecord) -> set[str]:
    """Return the host names in the fields of a record, with and without their domains."""
    names = {process.host for process in run.processes}
    names |= {host.host for host in (run.environment.hosts if run.environment else [])}
    names |= {run.failure.host} if run.failure and run.failure.host else set()
    return {name for full in names for name in (full, full.partition(".")[0])} - _ANYBODY


def users(run: RunRecord) -> set[str]:
    """Return the user names in a record: in its variables, and as owners of home folders in its paths."""
    variables = run.environment.variables if run.environment else {}
    names = {value for name, value in variables.items() if name.endswith(("USER", "LOGNAME"))}
    return (names | set(_HOME.findall(record.dumps(run).decode()))) - _ANYBODY


def reveals(text: str, names: Collection[str]) -> bool:
    """Return whether a text has one of these names as a word, a home folder or an address."""
    private = bool(_HOME.search(text) or _ADDRESS.search(text) or any(_addresses(text)))
    return private or bool(names and _names_pattern(names).search(text))


def _names_pattern(names: Collection[str]) -> re.Pattern[str]:
    """Return a pattern of these names as words, in any case, the longest first; hyphens and underscores split words."""
    longest = sorted(names, key=lambda name: (-len(name), name))
    return re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(map(re.escape, longest))})(?![A-Za-z0-9])", re.I)


def _addresses(text: str) -> Iterator[str]:
    """Yield the IPv6 addresses in a text, without loopback addresses."""
    for address_text in _IPV6.findall(text):
        with contextlib.suppress(ValueError):
            address = ipaddress.IPv6Address(address_text)
            if not (address.is_loopback or address.is_unspecified):
                yield address_text


class Scrubber:
    """Replaces all text that is not allowed to leave."""

    def __init__(self, host_names: Iterable[str], user_names: Iterable[str]) -> None:
        """Take the known names of hosts, with and without their domains, and of users."""
        all_hosts = {*host_names}
        short = sorted({name.partition(".")[0].lower() for name in all_hosts})
        self._new = {name.lower(): f"host{short.index(name.partition('.')[0].lower())}" for name in all_hosts}
        self._new |= {name.lower(): "user" for name in user_names}
        self._partitions: dict[str, str] = {}

    @classmethod
    def from_records(cls, runs: Iterable[RunRecord]) -> "Scrubber":
        """Return one for these records, which also knows the names of this host and user."""
        host, machines, people = socket.gethostname(), set[str](), set[str]()
        with contextlib.suppress(KeyError, OSError):  # a user without a name, as in a container with another number
            people = {getpass.getuser()}
        for run in runs:
            machines |= hosts(run)
            people |= users(run)
        return cls({*machines, host, host.partition(".")[0]} - _ANYBODY, people - _ANYBODY)

    @property
    def names(self) -> set[str]:
        """Return the known names, in lower case."""
        return {*self._new}

    def _renamed(self, text: str, kept: Collection[str] = ()) -> str:
        """Return a text with the new names of hosts and users, but for names that are `kept`."""
        new = {old: name for old, name in self._new.items() if old not in kept}
        return _names_pattern(new).sub(lambda old: new[old[0].lower()], text) if new else text

    def _allowed(self, chunk: str) -> str:
        """Return a part of a text that has no spaces if it may leave; of a path perhaps the file name alone."""
        words, folder, name = _WORD.findall(chunk), *chunk.rpartition("/")[::2]
        own = not all(map(str.isdigit, words)) and all(map(_is_own, words)) and not _ADDRESS_LIKE.search(chunk)
        if own or _NUMBER.fullmatch(chunk) or chunk in _ANYBODY:
            return chunk
        file = self._allowed(name) if folder and "." in name.strip(".") else "scrubbed"
        return file if file == "scrubbed" else f"/.../{file}"

    def text(self, text: str) -> str:
        """Return a text in which what is neither a number nor a word of the kit is replaced."""
        return _CHUNK.sub(lambda chunk: self._allowed(chunk[0]), self._renamed(text))

    def _string(self, value: str, keys: tuple[str, ...]) -> str:
        key, section = keys[-1], keys[-2] if len(keys) > 1 else ""
        if key.lower().endswith("partition"):
            return self._partitions.setdefault(value, f"partition{len(self._partitions)}")
        if override := re.fullmatch(r"([a-z_][\w.]*)=(.*)", value, re.DOTALL):  # of a command
            return f"{override[1]}={self._string(override[2], tuple(override[1].split('.')))}"
        if _FACTS.intersection(keys):
            return value
        if _NAMES.intersection(keys) or (key == "name" and section in _NAMED):
            return self._renamed(value, _vocabulary())
        unlisted = (section == "variables" and not _VARIABLES.fullmatch(key)) or key == "account"
        if unlisted or (section == "tracking" and key not in ("name", "mode")):
            return "scrubbed"
        return self.text(value)

    def _scrubbed(self, value: Any, *keys: str) -> Any:
        if isinstance(value, dict):
            paths = keys[-1:] in (("files",), ("compilers",))
            return {
                f"file{number}" if paths else name: self._scrubbed(inner, *keys, *name.split("."))
                for number, (name, inner) in enumerate(value.items())
            }
        if isinstance(value, list):
            return [self._scrubbed(inner, *keys) for inner in value]
        return self._string(value, keys) if isinstance(value, str) else value

    def path(self, path: Path) -> Path:
        """Return the path of a record in the folder of results, without names."""
        return Path(*(self._renamed(part, _vocabulary()) for part in path.parts))

    def record(self, run: RunRecord) -> RunRecord:
        """Return the record with what may leave.

        Numbers do not change, and the hash of the configuration is that of the scrubbed one. `notes` says that the
        record was scrubbed. It names no files of its launch, which have names too.
        """
        unnamed: dict[str, Any] = {"sources": {}, "ledger_line": "", "typed_command": []}
        scrubbed = msgspec.convert(self._scrubbed(asdict(run) | unnamed), RunRecord)
        scrubbed.config_hash = recorded_config.values_hash(scrubbed.config)
        scrubbed.notes.append(SCRUBBED)
        return scrubbed


def authors_names(runs: Iterable[RunRecord]) -> list[str]:
    """Return the names that an author gave to what was measured, as lines: those with a word that the kit has not."""
    lines: dict[str, None] = {}
    for run in runs:
        sections = {section: run.config.get(section) or {} for section in ("model", "dataset", "program")}
        names = {section: str(values.get("name", "")) for section, values in sections.items()}
        for field, name in {"experiment": run.experiment, "point": run.point, "arm": run.arm or "", **names}.items():
            if not all(map(_is_own, _WORD.findall(name))):
                lines[f"{field}: {name}"] = None
    return [*lines]
