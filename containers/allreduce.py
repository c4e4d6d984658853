"""Sum the numbers of all ranks, and print where this rank ran and which MPI library it loaded.

    mpirun -np 2 python containers/allreduce.py mpi

Fails if the rank is alone, if the sum is wrong, or if the controller is not the one named.
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
    """Join the other ranks, sum, print; exit with an error if something is wrong."""
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
        sys.exit(f"the controller is {controller}; expected: {sys.argv[1:]}")
    if not (total == expected).all():
        sys.exit(f"the sum over {hvd.size()} ranks is {total[0]}, not {expected}")
    if hvd.rank() == 0:
        print(f"allreduce of {hvd.size()} ranks: {total[0]:.0f}, as expected", flush=True)


if __name__ == "__main__":
    main()
