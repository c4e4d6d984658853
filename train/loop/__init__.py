"""Learning and measuring: steps, epochs, evaluation, checkpoints."""


class NotFinite(Exception):
    """The loss of some rank became NaN or infinite at a step, counted from 1 over the whole run."""

    def __init__(self, step: int) -> None:
        """Keep the step, for the record."""
        super().__init__(
            f"the loss is not finite at step {step}: the learning rate is too high for this model and batch, "
            "or the data has values that are not finite"
        )
        self.step = step
