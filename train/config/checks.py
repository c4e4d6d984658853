"""Checks of single values: a field's metadata states its allowed values, and one loop checks every field."""

import math
import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from common.printable import os_error_text
from common.terminal import show

_LISTED = 8
# Name of a bound, its comparison of a value with the bound, and the bound as text.
_BOUNDS = (
    ("minimum", operator.ge, "{} or more"),
    ("above", operator.gt, "above {}"),
    ("maximum", operator.le, "at most {}"),
    ("below", operator.lt, "below {}"),
)


class ConfigError(Exception):
    """A wrong name, type, unit or combination: names the key, the value given and what is allowed."""


class LeftOut(ConfigError):
    """A point that is impossible although others of its experiment are not: the experiment leaves it out."""


def check(condition: bool, key: str, value: object, allowed: str, error: type[ConfigError] = ConfigError) -> None:
    """Raise ConfigError, or the given subclass of it, unless the condition holds."""
    if not condition:
        raise error(f"{key}={value}: {allowed}")


def reported(work: Callable[[], int]) -> int:
    """Return the exit status of a command's work: 2, after a message, if its input is wrong or a file is unusable."""
    try:
        return work()
    except ConfigError as error:
        message = str(error)
    except OSError as error:
        message = os_error_text(error)
    except RuntimeError as error:
        if str(error) != "can't start new thread":
            raise
        message = (
            "the system starts no further thread: raise the limit on processes (ulimit -u, or pids.max of the cgroup) "
            "or on memory (ulimit -v)"
        )
    show(f"error: {message}", file=sys.stderr)
    return 2


def listed(items: Sequence[object]) -> str:
    """Return the first few items for a message, and how many more there are."""
    more = len(items) - _LISTED
    return ", ".join(map(str, items[:_LISTED])) + (f" and {more} more" if more > 0 else "")


# Whether some values go together; the key that an error names, without its section; what is allowed, as text; the kind
# of error.
Rule = tuple[bool, str, str] | tuple[bool, str, str, type[ConfigError]]


@dataclass(frozen=True, kw_only=True)
class AllowedValues:
    """The allowed values: some names, or the finite numbers of a range. The field's type decides on null."""

    names: tuple[str, ...] = ()
    minimum: float | None = None
    above: float | None = None
    maximum: float | None = None
    below: float | None = None
    unit: str = ""
    null: str = ""  # the meaning of null, if the field allows it

    def admit(self, value: Any) -> bool:
        """Return whether a value is allowed; null always is."""
        if value is None:
            return True
        if self.names:
            return value in self.names
        return math.isfinite(value) and all(holds(value, bound) for bound, holds, _ in self._bounds())

    def text(self) -> str:
        """Return the allowed values for an error message: "must be 0 or more and below 1"."""
        if self.names:
            return f"allowed are {', '.join(self.names)}"
        unit = f" {self.unit}" if self.unit else ""
        bounds = " and ".join(form.format(f"{bound:g}{unit}") for bound, _, form in self._bounds())
        return f"must be {bounds}" + (f", or null for {self.null}" if self.null else "")

    def _bounds(self) -> Iterator[tuple[float, Callable[[Any, Any], bool], str]]:
        """Yield the bounds that there are: each with its comparison, and as text."""
        for name, holds, form in _BOUNDS:
            if (bound := getattr(self, name)) is not None:
                yield bound, holds, form


def allow(**bounds: Any) -> dict[str, Any]:
    """Return the metadata of a field with these AllowedValues: `field(metadata=allow(minimum=1, unit="steps"))`."""
    return {"allowed": AllowedValues(**bounds)}


def check_section(section: Any, prefix: str = "") -> None:
    """Raise ConfigError for the first value of a section, or of a section in it, that is not allowed or breaks a rule.

    The method `rules` of a section yields its rules. prefix: the key of the section with a dot, as `optimizer.`.
    """
    for field in fields(section):
        allowed: AllowedValues | None = field.metadata.get("allowed")
        value = getattr(section, field.name)
        if allowed and not allowed.admit(value):
            infinite = isinstance(value, float) and not math.isfinite(value)
            raise ConfigError(f"{prefix}{field.name}={value}: {allowed.text()}{' and finite' if infinite else ''}")
        if is_dataclass(value):
            check_section(value, f"{prefix}{field.name}.")
    if hasattr(section, "rules"):
        check_rules(section.rules(), section, prefix)


def check_rules(rules: Iterable[Rule], section: Any, prefix: str = "") -> None:
    """Raise ConfigError for the first of these rules on the values of a section that does not hold."""
    for holds, key, why, *kind in rules:
        value = operator.attrgetter(key)(section)
        if isinstance(value, tuple):
            value = ",".join(map(str, value)) or "none"
        elif is_dataclass(value):
            value = getattr(value, "name", "given")
        check(holds, prefix + key, value, why, *kind)
