"""Which samples a rank reads: pure functions of counts, seed and epoch."""

import numpy as np


def epoch_order(samples: int, seed: int, epoch: int) -> np.ndarray:
    """The order of all samples in one epoch, whatever the number of ranks: a permutation of shape (samples,)."""
    return np.random.default_rng([seed, epoch]).permutation(samples)


def training_indices(order: np.ndarray, step_batch: int, ranks: int, rank: int) -> np.ndarray:
    """The samples of one rank, in order: shape (steps * step_batch,).

    No two ranks share a sample, every rank makes the same number of steps, and the samples at the end that do not fill
    a global batch are left out (others in each epoch).

    order: the samples of `epoch_order` that are not used yet.
    """
    global_batch = step_batch * ranks
    return order[: len(order) // global_batch * global_batch][rank::ranks]


def validation_indices(samples: int, step_batch: int, ranks: int, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """The samples of one rank, and a weight for each: 1, or 0 for padding to complete batches on all ranks.

    Both of shape (steps * step_batch,). Over all ranks each sample has the weight 1 exactly once.
    """
    steps = -(-samples // (step_batch * ranks))
    positions = np.arange(steps * step_batch) * ranks + rank
    return np.minimum(positions, samples - 1), (positions < samples).astype(np.float32)


def split(samples: int, validation_fraction: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices for training and for validation, from a seed: the same on every rank and in every run."""
    order = np.random.default_rng(seed).permutation(samples)
    held_out = round(samples * validation_fraction)
    return order[held_out:], order[:held_out]
