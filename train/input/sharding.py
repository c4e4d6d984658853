"""Which samples a rank reads: pure functions of the counts, the seed and the epoch."""

import numpy as np


def training_indices(
    samples: int, global_batch: int, ranks: int, rank: int, seed: int, epoch: int, used: int = 0
) -> np.ndarray:
    """The samples of one rank in one epoch, in order: shape (steps * global_batch // ranks,).

    No two ranks share a sample, every rank makes the same number of steps, and the samples that would not fill a
    global batch are left out (others in each epoch). The order depends on the seed and the epoch alone: after its first
    `used` samples any number of ranks can go on with the rest.
    """
    left = np.random.default_rng([seed, epoch]).permutation(samples)[used:]
    return left[: len(left) // global_batch * global_batch][rank::ranks]


def validation_indices(samples: int, batch_per_rank: int, ranks: int, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """The samples of one rank, and a weight each: 1, or 0 for the padding that gives all ranks whole batches.

    Both of shape (steps * batch_per_rank,). Over all ranks each sample has the weight 1 exactly once.
    """
    steps = -(-samples // (batch_per_rank * ranks))
    positions = np.arange(steps * batch_per_rank) * ranks + rank
    return np.minimum(positions, samples - 1), (positions < samples).astype(np.float32)


def split(samples: int, validation_fraction: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices for training and for validation, from a seed: the same on every rank and in every run."""
    order = np.random.default_rng(seed).permutation(samples)
    held_out = round(samples * validation_fraction)
    return order[held_out:], order[:held_out]
