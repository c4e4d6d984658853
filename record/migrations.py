"""What a record of an older version says, in the names of today's version.

Each migration takes the fields of one version to those of the next, when the record is read; the file stays as it is.
What a version did not record stays absent: the field of the schema has a default that says so.
"""

from collections.abc import Callable
from typing import Any

from record import this_kit

Fields = dict[str, Any]  # of a record, or of the files beside it, as its JSON has them


def _from_4(fields: Fields) -> None:
    """Call rank groups by that name: they were `worlds`."""
    config = fields["config"]
    for old, new in (("worlds", "rank_groups"), ("worlds_at_once", "rank_groups_at_once")):
        if old in config:
            config[new] = config.pop(old)
    for arm in config.get("rounds") or []:
        if "world" in arm:
            arm["rank_group"] = arm.pop("world")


def _from_5(fields: Fields) -> None:
    """Call the CPU quota of a node by that name, and the controls of a measurement; refuse elastic training."""
    config = fields["config"]
    if fields.pop("resizes", None):
        raise LookupError("its ranks changed during the run (elastic training), which versions up to 0.2.0 read")
    for section, old, new in (("system", "cpus_per_node", "cpu_quota_per_node"), ("measure", "control", "controls")):
        if old in config.get(section, {}):
            config[section][new] = config[section].pop(old)


OLDEST = 4
_MIGRATIONS: tuple[Callable[[Fields], None], ...] = (_from_4, _from_5)  # each from its version, beginning with OLDEST
VERSION = OLDEST + len(_MIGRATIONS)


def migrate(fields: Fields, version: int) -> Fields:
    """Return the fields of a version with the names of VERSION, changed in place.

    Raises LookupError, TypeError or AttributeError for fields that are not of that version.
    """
    for migration in _MIGRATIONS[version - OLDEST :]:
        migration(fields)
    return fields


def refusal(version: int, oldest: int, newest: int, written_by: str) -> str | None:
    """Return why this kit cannot read a version of a file; None if it can. written_by: a version of the kit, or ""."""
    if oldest <= version <= newest:
        return None
    readable = f"{newest}" if oldest == newest else f"{oldest} to {newest}"
    reason = f"version {version} of its schema; version {this_kit.version()} of this kit reads {readable}"
    if version > newest:
        reason += (
            f": read it with version {written_by} of the kit, or a newer one" if written_by else ": take a newer kit"
        )
    return reason
