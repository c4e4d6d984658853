"""The commands that the kit advises: one that a user typed, with other variables of make or other keys of conf/."""

import shlex
from collections.abc import Mapping, Sequence

_NOTHING: Mapping[str, str] = {}


def changed(
    command: Sequence[str], variables: Mapping[str, str] = _NOTHING, keys: Mapping[str, str] = _NOTHING
) -> list[str]:
    """Return a command, of make or of the launcher, with other values, and without what repeats measurements.

    variables: of make, "" leaves one out. keys: of conf/, which stand in ARGS of make.
    """
    names = {"FORCE", "--force", *variables, *keys}
    words = [word for word in command if word.partition("=")[0] not in names]
    words += [f"{name}={value}" for name, value in variables.items() if value]
    settings = [f"{key}={value}" for key, value in keys.items()]
    if words[:1] != ["make"] or not keys:
        return [*words, *settings]
    typed = shlex.split(next((word.removeprefix("ARGS=") for word in words if word.startswith("ARGS=")), ""))
    others = [key for key in typed if key.partition("=")[0] not in keys]
    return [*(word for word in words if not word.startswith("ARGS=")), f"ARGS={shlex.join([*others, *settings])}"]
