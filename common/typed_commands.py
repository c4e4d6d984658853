"""The commands that the kit advises: one that a user typed, with other variables of make or other keys of conf/."""

import shlex
from collections.abc import Mapping, Sequence

_NOTHING: Mapping[str, str] = {}
_KEYS = {"NODES": "nodes", "REPEATS": "measure.repeats", "MODELS": "model"}  # in ARGS they win over the variable


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
    if words[:1] != ["make"]:
        return [*words, *settings]
    replaced = {*keys, *(_KEYS.get(name) for name in variables)}
    typed = shlex.split(next((word.removeprefix("ARGS=") for word in words if word.startswith("ARGS=")), ""))
    settings = [*(key for key in typed if key.partition("=")[0] not in replaced), *settings]
    words = [word for word in words if not word.startswith("ARGS=")]
    return [*words, f"ARGS={shlex.join(settings)}"] if settings else words
