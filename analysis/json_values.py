"""Values as JSON has them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd


def plain(value: Any) -> Any:
    """A value as JSON has it, and what is in it: null for what is not known or not finite, numbers of NumPy as such."""
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    number = value.item() if isinstance(value, np.generic) else value
    if number is pd.NA or number is pd.NaT or (isinstance(number, float) and not math.isfinite(number)):
        return None
    return number
