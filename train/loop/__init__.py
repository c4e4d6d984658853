"""Learning and measuring: steps, epochs, evaluation, checkpoints."""
