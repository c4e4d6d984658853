"""What a record's `distribution.backend` means for who reads it."""

# Each rank applies its gradients by itself: this is not synchronous SGD, and steps of different ranks do not belong
# together.
ASYNCHRONOUS = frozenset({"ps"})
# Data between the ranks is carried over gRPC, on CPUs: these are strategies of TensorFlow.
STRATEGIES = frozenset({"mwms", "ps"})
# One process computes for all ranks of a point, each on a device of its own (a tower); variables are on the CPU.
TOWERS = frozenset({"ps_cpu"})
