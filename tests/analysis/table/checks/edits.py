"""Changes of single values of a record, and the messages of a check about it."""

import functools
from copy import deepcopy


def edited(run, changes):
    """Return the record with values set by their dotted paths, as "ranks.1.cores"; a function computes a new value."""
    for path, value in changes.items():
        *steps, last = path.split(".")
        holder = functools.reduce(_inner, steps, run)
        new = value(_inner(holder, last)) if callable(value) else deepcopy(value)
        if isinstance(holder, list):
            holder[int(last)] = new
        elif isinstance(holder, dict):
            holder[last] = new
        else:
            setattr(holder, last, new)
    return run


def _inner(holder, step):
    if isinstance(holder, list):
        return holder[int(step)]
    return holder.get(step) if isinstance(holder, dict) else getattr(holder, step)


def messages(check, run):
    """Return the contradictions that a check finds, as commands print them and with the difference."""
    return [f"{result}" + ("" if result.off is None else f" ({result.off:+.3g})") for result in check(run)]
