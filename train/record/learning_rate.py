"""The learning rate of a job, from the configured one."""

from __future__ import annotations

import math


def scaled(learning_rate: float, scaling: str, batches: int) -> float:
    """The learning rate of a job: the configured one, scaled (none, linear, sqrt) with the batches of a step.

    batches: one for each rank and each of its backward passes.
    """
    return learning_rate * {"none": 1.0, "linear": float(batches), "sqrt": math.sqrt(batches)}[scaling]
