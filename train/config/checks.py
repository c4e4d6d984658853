"""Checks of single values: a field's metadata states what it allows, and one loop checks every field against it.

And of the folder of the results, which every command checks before it measures.
"""

import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

_LISTED = 8


class ConfigError(Exception):
    """A wrong name, type, unit or combination: names the key, the value given and what is allowed."""


class LeftOut(ConfigError):
    """A point that cannot be, though others of its experiment can: the experiment leaves it out, and says why."""


def check(condition: bool, key: str, value: object, allowed: str, error: type[ConfigError] = ConfigError) -> None:
    """Raise ConfigError, or one of its kinds, unless the condition holds."""
    if not condition:
        raise error(f"{key}={value}: {allowed}")


def listed(items: Sequence[object]) -> str:
    """Return the first few items for a message, and how many more there are."""
    more = len(items) - _LISTED
    return ", ".join(map(str, items[:_LISTED])) + (f" and {more} more" if more > 0 else "")


# Whether some values go together; the key, below that of the section, that is named where they do not; what is
# allowed; the kind of error.
Rule = tuple[bool, str, str] | tuple[bool, str, str, type[ConfigError]]


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The allowed values: one of some names, or a finite number in a range. Null is left to the field's type."""

    allowed: tuple[str, ...] = ()  # names
    minimum: float | None = None
    above: float | None = None
    maximum: float | None = None
    below: float | None = None
    unit: str = ""
    null: str = ""  # what null stands for, where the field allows it

    def admit(self, value: Any) -> bool:
        """Return whether a value is within the limits; null always is."""
        if value is None:
            return True
        if self.allowed:
            return value in self.allowed
        return (
            math.isfinite(value)
            and (self.minimum is None or value >= self.minimum)
            and (self.above is None or value > self.above)
            and (self.maximum is None or value <= self.maximum)
            and (self.below is None or value < self.below)
        )

    def text(self) -> str:
        """Return the limits for an error message: "must be 0 or more and below 1"."""
        if self.allowed:
            return f"allowed are {', '.join(self.allowed)}"
        return f"must be {self._range()}" + (f", or null for {self.null}" if self.null else "")

    def _range(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        if self.minimum is not None and self.maximum is not None:
            return f"{self.minimum:g} to {self.maximum:g}{unit}"
        bounds = (
            (self.minimum, f"{{:g}}{unit} or more"),
            (self.above, f"above {{:g}}{unit}"),
            (self.maximum, f"at most {{:g}}{unit}"),
            (self.below, f"below {{:g}}{unit}"),
        )
        return " and ".join(form.format(bound) for bound, form in bounds if bound is not None)


def limits(**bounds: Any) -> dict[str, Any]:
    """Return the metadata of a field that has these Limits: `field(metadata=limits(minimum=1, unit="steps"))`."""
    return {"limits": Limits(**bounds)}


def check_section(section: Any, prefix: str = "") -> None:
    """Raise ConfigError for the first value of a section, and of those in it, that is outside its limits or a rule.

    The method `rules` of a section yields its rules.

    prefix: the key of the section with a dot, as `optimizer.`.
    """
    for field in fields(section):
        allowed: Limits | None = field.metadata.get("limits")
        value = getattr(section, field.name)
        if allowed and not allowed.admit(value):
            infinite = isinstance(value, float) and not math.isfinite(value)
            raise ConfigError(f"{prefix}{field.name}={value}: {allowed.text()}{' and finite' if infinite else ''}")
        if is_dataclass(value):
            check_section(value, f"{prefix}{field.name}.")
    for holds, key, why, *kind in section.rules() if hasattr(section, "rules") else ():
        value = attrgetter(key)(section)
        check(holds, prefix + key, getattr(value, "name", "given") if is_dataclass(value) else value, why, *kind)


def check_results(results: Path) -> None:
    """Raise ConfigError where no record could be written below the folder, which is made: better now than later."""
    try:
        results.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=results):
            pass
    except OSError as error:
        why = "a file" if results.is_file() else error.strerror
        raise ConfigError(
            f"results={results}: {why}; give a folder in which records can be written, as RESULTS=/data/results"
        ) from error
