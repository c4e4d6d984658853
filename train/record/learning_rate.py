"""The learning rate of a job, from the configured one."""

from __future__ import annotations

import math


def scaled(learning_rate: float, scaling: str, ranks: int) -> float:
    """The learning rate of a job: the configured one, scaled with the number of ranks (none, linear, sqrt)."""
    return learning_rate * {"none": 1.0, "linear": float(ranks), "sqrt": math.sqrt(ranks)}[scaling]
