"""A rank that sums its number with those of all others, and says where it ran and which MPI it had loaded.

    mpirun -np 2 python containers/allreduce.py mpi

Fails where it is alone, where the sum is wrong, or where another controller than the one named was used.
"""

import os
import socket
import sys

os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import horovod.tensorflow as hvd
import tensorflow as tf

from train.rank.environment import mpi_library


def main() -> None:
    """Join, sum, tell."""
    hvd.init()
    controller = "mpi" if hvd.mpi_enabled() else "gloo"
    numbers = tf.fill([1000], float(hvd.rank() + 1))
    total = hvd.allreduce(numbers, op=hvd.Sum).numpy()
    expected = hvd.size() * (hvd.size() + 1) / 2
    library = mpi_library()
    loaded = f"{library.version} ({library.path})" if library else "none"
    print(
        f"rank {hvd.rank()} of {hvd.size()} on {socket.gethostname()}: {controller}, MPI library: {loaded}", flush=True
    )
    if hvd.size() < 2:
        sys.exit("this rank is alone: the ranks did not find each other")
    if controller not in sys.argv[1:]:
        sys.exit(f"the controller is {controller}; asked for: {sys.argv[1:]}")
    if not (total == expected).all():
        sys.exit(f"the sum over {hvd.size()} ranks is {total[0]}, not {expected}")
    if hvd.rank() == 0:
        print(f"allreduce of {hvd.size()} ranks: {total[0]:.0f}, as it must be", flush=True)


if __name__ == "__main__":
    main()
