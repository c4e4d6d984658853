"""Records with what limits their throughput, in round numbers."""

from collections.abc import Sequence

from train.record.record import MatrixProduct, RunRecord, Transfer, Work


def limited(run: RunRecord, arms: Sequence[int | None] = (None,)) -> RunRecord:
    """The record with a product of 1000 rows in 20 ms, 100 GFLOP/s, and 1 GB/s between its ranks, at these arms.

    At 20 GFLOP an image that is 5 images/s a rank; its gradients are 0.1 GB.
    """
    run.work = Work(operations_per_image=20 * 10**9, gradient_bytes=10**8)
    for rank in run.ranks:
        rank.matrix_products = [MatrixProduct(1000, [0.03, 0.02, 0.025], arm) for arm in arms]
        rank.transfers = [Transfer("tcp_ring", "127.0.0.1", 10**9, 1.0, arm) for arm in arms]
    return run
