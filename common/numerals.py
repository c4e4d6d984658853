"""Decimal numbers as people and programs write them, with either mark before decimals."""

import math
import re

_GROUPS = {".": ",'’ _", ",": ".'’ _"}  # by decimal mark, the marks between thousands
_WHOLE = {
    mark: re.compile(rf"[-+]?(?=[{mark}]?\d)(?:[1-9]\d{{0,2}}([{groups}])\d{{3}}(?:\1\d{{3}})*|\d*)(?:[{mark}]\d*)?")
    for mark, groups in _GROUPS.items()
}


def number(text: str, mark: str) -> tuple[float, float] | None:
    """Return the value of a number, and how far rounding can have moved it; None if it is none.

    mark: before decimals; another one may stand between groups of three digits, as in "1'234.5" and "1,234.5e3".
    """
    mantissa, _, exponent = text.lower().partition("e")
    match = _WHOLE[mark].fullmatch(mantissa)
    if not match:
        return None
    plain, power = mantissa.replace(match[1] or " ", "").replace(mark, "."), int(exponent or 0)
    value, half_unit = float(f"{plain}e{power}"), float(f"5e{power - 1 - len(plain.partition('.')[2])}")
    return (value, half_unit) if math.isfinite(value) else None
