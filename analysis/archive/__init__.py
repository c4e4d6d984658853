"""The contents of an archive for a reviewer: packed files, their description for programs, their digests.

Files are records, and what launches wrote beside them; scrubbed: without names.
"""

import contextlib
import functools
import getpass
import ipaddress
import re
import socket
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from analysis import TableError
from analysis.archive.manifest import GZIP, digest
from analysis.verify.remade import SCRUBBED
from common import bounded_files as bounded
from record import ledger, protocol, recorded_config
from record import schema as record
from record.schema import RecordError, RunRecord


@dataclass(frozen=True)
class Collected:
    """Files by their path in the folder of results, and a line for each that is left out, with the reason."""

    records: dict[Path, bytes]
    attachments: dict[Path, bytes]  # and other files of launches; the records and ledgers have their SHA-256
    left_out: list[str]
    remains: list[str] = field(default_factory=list)  # what scrubbed records still hold that may name somebody


def collect(results: Path, scrubbed: bool) -> Collected:
    """Collect the trustworthy records below `results`; scrubbed: without names of hosts and users, paths and addresses.

    An attachment of a record is packed unmodified or not at all, as its digest is in the record. Raises TableError
    without any record.
    """
    runs: dict[Path, RunRecord] = {}
    texts: dict[Path, bytes] = {}
    left_out = []
    for path in record.find(results):
        try:
            text, name = record.read(path), path.relative_to(results)
            runs[name], texts[name] = record.loads(text, str(path)), text
        except RecordError as error:
            left_out.append(str(error))
    if not runs:
        raise TableError(f"{results}: no run record in it to pack" + "".join(f"\n{line}" for line in left_out))
    if not scrubbed:
        attachments, problems = _attachments(results, runs, None)
        return Collected(texts, _launch_files(results, runs, problems) | attachments, left_out + problems)
    scrubber = Scrubber(*_names(runs))
    cleaned = {scrubber.path(path): scrubber.record(run) for path, run in runs.items()}
    attachments, problems = _attachments(results, runs, scrubber.names)
    return Collected(
        {path: record.dumps(run) for path, run in cleaned.items()},
        {scrubber.path(path): content for path, content in attachments.items()},
        left_out + problems,
        remains(cleaned.values()),
    )


def _names(runs: Mapping[Path, RunRecord]) -> tuple[set[str], set[str]]:
    """Return the names of hosts and people in records, and those of this host and user."""
    host = socket.gethostname()
    machines = {host, host.partition(".")[0]} - COMMON
    people: set[str] = set()
    with contextlib.suppress(KeyError, OSError):  # a user without a name, as in a container with another number
        people = {getpass.getuser()} - COMMON
    for run in runs.values():
        machines |= hosts(run)
        people |= users(run)
    return machines, people


def _attachments(
    results: Path, runs: Mapping[Path, RunRecord], names: set[str] | None
) -> tuple[dict[Path, bytes], list[str]]:
    """Return the files that records name, and lines for those left out. names: allowed in no file; None: no check."""
    contents: dict[Path, bytes] = {}
    problems = []
    named = [(path, name, stated) for path, run in runs.items() for name, stated in run.attachments.items()]
    for record_path, name, stated in named:
        if Path(name).name != name:  # attachments are in the folder of the record
            continue
        path = results / record_path.parent / name
        try:
            content = bounded.read(path)
            text = "" if names is None else _text(content)
        except OSError as error:
            problems.append(f"{path}: {error.strerror}; the record beside it names it")
            continue
        if digest(content) != stated:
            problems.append(f"{path}: not the file of the record beside it: it was changed, or copied from another run")
        elif names is not None and reveals(text, names):
            problems.append(f"{path}: it has the name of a host or a user, a home folder or an address")
        else:
            contents[record_path.parent / name] = content
    return contents, problems


def _launch_files(results: Path, runs: Iterable[Path], problems: list[str]) -> dict[Path, bytes]:
    """Return the files by which records are verified: of all points of their experiments that have a ledger.

    Add a line to `problems` for each that cannot be read.
    """
    patterns = (ledger.NAME, f"*/{protocol.assignment_path(Path()).name}", "*/rank-*.jsonl")
    homes = {results / path.parents[1] for path in runs}
    homes |= {
        path.parent for name in {path.parts[0] for path in runs} for path in results.glob(f"{name}/*/*/{ledger.NAME}")
    }
    contents = {}
    for path in (path for home in sorted(homes) for pattern in patterns for path in sorted(home.glob(pattern))):
        try:
            contents[path.relative_to(results)] = bounded.read(path, links=False)
        except OSError as error:
            problems.append(f"{path}: {error.strerror}")
    return contents


def _text(content: bytes) -> str:
    """Return a file as text, unpacked. Raises OSError if it cannot be unpacked."""
    return (bounded.unpacked(content) if content.startswith(GZIP) else content).decode(errors="replace")


# Names that identify no host and no person.
COMMON = {"localhost", "127.0.0.1", "root", "user", ""}
# Keys of values that hold a host, a person, a job or an address.
_PRIVATE = re.compile(
    r"USER|LOGIN|ACCOUNT|ENTITY|HOST(NAME|S|FILE)?$|NODELIST|NODENAME|ADDR|URI|CLUSTER_NAME|JOB_?NAME|QOS|RESERVATION"
    r"|COMMENT|(^|_)[UG]ID$|JOB_?ID$|SLURM_CONF$|WCKEY",
    re.I,
)
_PARTITION = re.compile(r"PARTITION$", re.I)
# Text of a user about a run, which no measurement needs.
_FREE_TEXT = {"notes", "tags", "group", "project", "remark"}  # of tracking and system
_OPTION = re.compile(
    r"(--?(?:account|comment|job-name|mail-user|nodelist|partition|qos|reservation|uid|wckey|exclude)[= ])([^\s'\"]+)"
)
_USER_VARIABLE = re.compile(r"(^|_)(USER|LOGNAME)$")
_HOME = re.compile(r"/(?:home|Users|users|u)/([\w.-]+)")
# An absolute path; not within a word, as in and/or, nor in a URL.
_PATH = re.compile(r"(?<![\w/:.~-])(?:~[\w.-]*)?(?:/[^\s/:,;'\"=()]+)+/?")
_IPV4 = r"(?<![\w.])(?!127\.)\d{1,3}(?:\.\d{1,3}){3}(?![\w.])"
_MAC = r"(?<![\w:])[0-9a-fA-F]{2}(?::[0-9a-fA-F]{2}){5}(?![\w:])"
_MAIL = r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
_ADDRESS = re.compile(f"{_MAIL}|{_IPV4}|{_MAC}")
_IPV6 = re.compile(r"(?<![\w:.])[0-9a-fA-F]{0,4}(?::[0-9a-fA-F]{0,4}){2,7}(?:\.\d{1,3}){0,3}(?:%\w+)?(?![\w:])")
_WORD = re.compile(r"[A-Za-z0-9]+")
_CONF = Path(__file__).resolve().parents[2] / "conf"
# Keys whose values are of the kit's own vocabulary, as the name of an experiment: a user may have such a name.
_STRUCTURE = {"experiment", "point", "arm", "arm_keys", "swept", "config", "status", "phase"}
# Fields of a record that hold what programs and users wrote.
_WRITTEN_FIELDS = ("command", "notes", "failure", "variables", "arms_left_out", "image", "kernel", "system")
_NOT_IDENTIFYING = re.compile(
    r"[\d\s.,:()x%+-]*|/\.\.\.(/libmpi[\w.]*)?|scrubbed|address|user|domain|(host|partition)\d+|-?[A-Za-z]{1,3}", re.I
)


def hosts(run: RunRecord) -> set[str]:
    """Return the host names in the fields of a record, with and without their domains."""
    names = {process.host for process in run.processes} | {
        host.host for host in (run.environment.hosts if run.environment else [])
    }
    if run.failure and run.failure.host:
        names.add(run.failure.host)
    return {name for full in names for name in (full, full.partition(".")[0])} - COMMON


def users(run: RunRecord) -> set[str]:
    """Return the user names in a record: in its variables, and as owners of home folders in its paths."""
    variables = run.environment.variables if run.environment else {}
    names = {value for name, value in variables.items() if _USER_VARIABLE.search(name)}
    return (names | set(_HOME.findall(record.dumps(run).decode()))) - COMMON


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
        try:
            address = ipaddress.IPv6Address(address_text)
        except ValueError:
            continue
        if not (address.is_loopback or address.is_unspecified):
            yield address_text


@functools.cache
def _vocabulary() -> frozenset[str]:
    """Return the words of the kit's own configuration, in lower case."""
    texts = [f"{path.stem}\n{path.read_text()}" for path in _CONF.rglob("*.yaml")]
    return frozenset(token.lower() for text in texts for token in _WORD.findall(text))


def _file_alone(path: re.Match[str]) -> str:
    """Return a path as its file name alone; one without a suffix may be a folder named after a person."""
    name = path[0].rpartition("/")[2]
    return f"/.../{name}" if "." in name.strip(".") else "/..."


class Scrubber:
    """Replaces names, folders, addresses and free text.

    A host, or a partition, has one new name in all records, so that its ranks still are on one host.
    """

    def __init__(self, host_names: Iterable[str], user_names: Iterable[str]) -> None:
        """Take the names that are replaced, of hosts with and without their domains."""
        all_hosts = {*host_names}
        short = sorted({name.partition(".")[0].lower() for name in all_hosts})
        self._new = {name.lower(): f"host{short.index(name.partition('.')[0].lower())}" for name in all_hosts}
        domains = {name.partition(".")[2].lower() for name in all_hosts} - {""}
        self._new |= {domain: "domain" for domain in domains if not domain.replace(".", "").isdigit()}
        self._new |= {name.lower(): "user" for name in user_names}
        self._partitions: dict[str, str] = {}

    @property
    def names(self) -> set[str]:
        """Return the names that are replaced, in lower case."""
        return {*self._new}

    def _new_names(self, structure: bool) -> dict[str, str]:
        """Return the new names by the old ones; within structure without words of the kit itself."""
        return {old: new for old, new in self._new.items() if not (structure and old in _vocabulary())}

    def _replaced(self, value: str, structure: bool) -> str:
        new = self._new_names(structure)
        return _names_pattern(new).sub(lambda old: new[old[0].lower()], value) if new else value

    def _text(self, value: str, structure: bool) -> str:
        value = _OPTION.sub(lambda option: f"{option[1]}scrubbed", value)
        value = _PATH.sub(_file_alone, value)
        for address in _addresses(value):
            value = value.replace(address, "address")
        return self._replaced(_ADDRESS.sub("address", value), structure)

    def _string(self, value: str, key: str, structure: bool) -> str:
        if _PARTITION.search(key):
            return self._partitions.setdefault(value, f"partition{len(self._partitions)}")
        if new := self._new_names(structure).get(value.lower()):
            return new
        if _PRIVATE.search(key) and value not in COMMON:
            return value if value.isdigit() and not key.upper().endswith("ID") else "scrubbed"
        if key == "image" and "/" in value and not value.startswith("/"):  # of a registry
            value = f".../{value.rpartition('/')[2]}"
        if key == "command" and (override := re.fullmatch(r"([\w.]+)=(.*)", value, re.DOTALL)):
            return f"{override[1]}={self._override(override[2], override[1].rpartition('.')[2])}"
        return self._text(value, structure)

    def _override(self, value: str, key: str) -> str:
        if key in (*_FREE_TEXT, "account", "entity"):
            return "scrubbed"
        return self._string(value, "" if key == "hosts" else key, structure=False)

    def _scrubbed(self, value: Any, key: str = "", structure: bool = False) -> Any:
        if structure and key in _FREE_TEXT:
            return [] if isinstance(value, list) else value and "scrubbed"
        if isinstance(value, dict):
            return {
                name: self._scrubbed(inner, name.rpartition(".")[2], structure or name in _STRUCTURE)
                for name, inner in value.items()
            }
        if isinstance(value, list):
            return [self._scrubbed(inner, key, structure) for inner in value]
        return self._string(value, key, structure) if isinstance(value, str) else value

    def path(self, path: Path) -> Path:
        """Return the path of a record in the folder of results, without names."""
        return Path(*(self._replaced(part, structure=True) for part in path.parts))

    def record(self, run: RunRecord) -> RunRecord:
        """Return the record without names, folders, addresses and free text.

        Numbers do not change, and the hash of the configuration is that of the scrubbed one. `notes` says that the
        record was scrubbed. It names no files of its launch, which have those names too.
        """
        scrubbed = msgspec.convert(
            self._scrubbed(asdict(run) | {"sources": {}, "ledger_line": "", "typed_command": []}), RunRecord
        )
        scrubbed.config_hash = recorded_config.values_hash(scrubbed.config)
        scrubbed.notes.append(SCRUBBED)
        return scrubbed


def remains(runs: Iterable[RunRecord]) -> list[str]:
    """Return a line for each text by programs or users that scrubbed records still have, with its field."""
    lines: dict[str, None] = {}

    def is_harmless(text: str) -> bool:
        in_vocabulary = all(token.lower() in _vocabulary() for token in _WORD.findall(text))
        return in_vocabulary or bool(_NOT_IDENTIFYING.fullmatch(text))

    def visit(value: Any, field: str, key: str) -> None:
        if isinstance(value, dict):
            for name, inner in value.items():
                visit(inner, field or (name if name in _WRITTEN_FIELDS else ""), name)
        elif isinstance(value, list):
            for inner in value:
                visit(inner, field, key)
        elif isinstance(value, str) and field and value != SCRUBBED and not is_harmless(value):
            lines[f"{key}: {value}"] = None

    for run in runs:
        visit(asdict(run), "", "")
    return [*lines]
