import re

import pytest

from train.distribution.cluster import Peer

pytestmark = pytest.mark.slow

PEERS = [Peer(f"n{number}", "127.0.0.1", {"worker": 1}) for number in range(3)]
# Around what a step fails by.
BEFORE = "Graph execution error:\n\nDetected at node CollectiveReduceV2 defined at:\n  File one\n\n"
AFTER = "\nThe error could be from a previous operation. Restart your program to reset.\n\t [[node]]"
# As TensorFlow 2.18 says it where a worker was killed, and where a worker or the first of them fell silent.
KILLED = "Collective ops is aborted by: Connection reset by peer from remote target /job:worker/replica:0/task:1 while"
SILENT = (
    "Collective ops is aborted by: Error reported from /job:worker/task:2: Task /job:worker/replica:0/task:2 heartbeat"
)
FIRST_SILENT = "Collective ops is aborted by: Deadline Exceeded RPC: /tensorflow.CoordinationService/Heartbeat"


def raising(name, message):
    import tensorflow as tf

    from train.distribution.multi_worker import exchanges

    with exchanges(1, PEERS):
        raise getattr(tf.errors, name)(None, None, message)


@pytest.mark.parametrize(
    ("name", "message", "lost"),
    [
        ("UnavailableError", KILLED.replace("task:1", "task:0"), r"rank 0 \(n0\)"),
        ("AbortedError", "Collective ops is aborted", "the other ranks"),
        ("UnavailableError", KILLED, "the other ranks"),  # its own name alone tells nothing
    ],
)
def test_a_failed_collective_is_a_lost_peer_that_is_named(name, message, lost):
    from train.transport import PeerLost

    with pytest.raises(PeerLost, match=f"an exchange with {lost} failed: Collective"):
        raising(name, message)


@pytest.mark.parametrize(
    ("name", "message", "lost"),
    [("InternalError", SILENT, r"rank 2 \(n2\)"), ("DeadlineExceededError", FIRST_SILENT, r"rank 0 \(n0\)")],
)
def test_a_worker_without_a_heartbeat_is_silent_and_named(name, message, lost):
    from train.transport import RankUnresponsive

    with pytest.raises(RankUnresponsive, match=rf"^{lost} does not answer: {re.escape(message)}$"):
        raising(name, BEFORE + message + AFTER)


@pytest.mark.parametrize("name", ["InternalError", "FailedPreconditionError", "CancelledError"])
def test_all_other_errors_stay_as_they_are(name):
    import tensorflow as tf

    with pytest.raises(getattr(tf.errors, name), match="cuDNN failed"):
        raising(name, "cuDNN failed")
