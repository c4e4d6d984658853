"""Records without the names of hosts and users, without folders and addresses, for publication."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import asdict
from typing import Any

import msgspec

from train.record import config_hash, record
from train.record.record import RunRecord

SCRUBBED = "scrubbed: names of hosts and users, paths and addresses are replaced"

# Names that identify no host and no person.
COMMON = {"localhost", "127.0.0.1", "root", "user", ""}
# Values whose name says that they hold a host, a person or an address, in any spelling.
_PRIVATE = re.compile(r"USER|LOGIN|ACCOUNT|ENTITY|HOST(NAME|S|FILE)?$|NODELIST|NODENAME|ADDR|URI|CLUSTER_NAME", re.I)
_USER_VARIABLE = re.compile(r"(^|_)(USER|LOGNAME)$")
_HOME = re.compile(r"/(?:home|Users|users|u)/([\w.-]+)")
# An absolute path; not within a word, as in and/or, nor in a URL.
_PATH = re.compile(r"(?<![\w/:.~-])(?:~[\w.-]*)?(?:/[^\s/:,;'\"=()]+)+/?")
_ADDRESS = re.compile(r"(?<![\w.])(?!127\.)\d{1,3}(?:\.\d{1,3}){3}(?![\w.])")


def hosts(run: RunRecord) -> set[str]:
    """The names of the hosts that a record names in its own fields, with and without their domains."""
    named = {process.host for process in run.processes} | {
        host.host for host in (run.environment.hosts if run.environment else [])
    }
    if run.failure and run.failure.host:
        named.add(run.failure.host)
    return {name for full in named for name in (full, full.partition(".")[0])} - COMMON


def users(run: RunRecord) -> set[str]:
    """The names of users in a record: in its variables, and as owners of home folders in its paths."""
    variables = run.environment.variables if run.environment else {}
    named = {value for name, value in variables.items() if _USER_VARIABLE.search(name)}
    return (named | set(_HOME.findall(record.dumps(run).decode()))) - COMMON


def revealing(names: Collection[str]) -> re.Pattern[str]:
    """What a text that is packed as it is must not have: one of these names as a word, a home folder, an address."""
    return re.compile("|".join([*([_word(names)] if names else []), _HOME.pattern, _ADDRESS.pattern]))


def _word(names: Collection[str]) -> str:
    """A pattern of any of these names, not within a word; the longest first."""
    longest = sorted(names, key=len, reverse=True)
    return rf"(?<![A-Za-z0-9_-])(?:{'|'.join(map(re.escape, longest))})(?![A-Za-z0-9_-])"


def _file_alone(path: re.Match[str]) -> str:
    """A path as the name of its file; one without a suffix may be a folder with the name of a person."""
    name = path[0].rpartition("/")[2]
    return f"/.../{name}" if "." in name.strip(".") else "/..."


def scrubber(host_names: Iterable[str], user_names: Iterable[str]) -> Callable[[RunRecord], RunRecord]:
    """Returns a function from a record to the same one without these names, without folders of paths and addresses.

    A host has one new name in all records, so that its ranks are still seen to be on one host. Numbers do not change,
    and the hash of the configuration is that of the scrubbed one. `notes` says that it was done.
    """
    short = sorted({name.partition(".")[0] for name in host_names})
    given = {name: f"host{short.index(name.partition('.')[0])}" for name in host_names} | dict.fromkeys(
        user_names, "user"
    )
    word = re.compile(_word(given)) if given else None

    def text(value: str) -> str:
        value = _ADDRESS.sub("address", _PATH.sub(_file_alone, value))
        return word.sub(lambda found: given[found[0]], value) if word else value

    def clean(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: clean(inner, name) for name, inner in value.items()}
        if isinstance(value, list):
            return [clean(inner, key) for inner in value]
        if not isinstance(value, str):
            return value
        if value in given:
            return given[value]
        private = _PRIVATE.search(key) and not value.isdigit() and value not in COMMON
        return "scrubbed" if private else text(value)

    def scrub(run: RunRecord) -> RunRecord:
        done = msgspec.convert(clean(asdict(run)), RunRecord)
        done.config_hash = config_hash.of(done.config)
        done.notes.append(SCRUBBED)
        return done

    return scrub
