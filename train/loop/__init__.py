"""Learning and measuring: steps, epochs, evaluation, checkpoints."""

from dataclasses import dataclass

ArmSet = tuple[int, ...]  # the indices of the arms of rounds that measure at the same time


@dataclass(frozen=True)
class Length:
    """The number of steps of a window."""

    timed: int
    untimed: int = 1  # before them


class NotFinite(Exception):
    """The loss of some rank became NaN or infinite at a step, counted from 1 over the whole run."""

    def __init__(self, step: int) -> None:
        """Keep the step, for the record."""
        super().__init__(
            f"the loss is not finite at step {step}: the learning rate is too high for this model and batch, "
            "or the data has values that are not finite"
        )
        self.step = step
