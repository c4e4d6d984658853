import pytest

pytestmark = pytest.mark.slow

NODE = "{{function_node __wrapped__HorovodAllreduce_num_reduce_ops_1}} Connection closed by peer [Op:HorovodAllreduce]"


def raising(error):
    from train.distribution.horovod import exchanges

    with exchanges():
        raise error


def tf_error(name, message):
    import tensorflow as tf

    return getattr(tf.errors, name)(None, None, message)


def test_a_failed_exchange_is_a_lost_peer_and_all_other_errors_stay_as_they_are():
    from horovod.common.exceptions import HorovodInternalError

    from train.transport import PeerLost

    for error in (tf_error("UnknownError", NODE), tf_error("AbortedError", NODE), HorovodInternalError("gone")):
        with pytest.raises(PeerLost, match="an exchange with the other ranks failed") as raised:
            raising(error)
        assert raised.value.__cause__ is error
    mismatch = tf_error("FailedPreconditionError", f"Mismatched allreduce tensor shapes {NODE}")  # no rank is gone
    for error in (tf_error("UnknownError", "cuDNN failed"), mismatch, ValueError("Horovod"), PeerLost("once")):
        with pytest.raises(type(error)) as raised:
            raising(error)
        assert raised.value is error


@pytest.mark.parametrize(
    ("size", "variable", "advice"),
    [
        (3, "OMPI_COMM_WORLD_SIZE", "Start as many processes as nodes x ranks_per_node"),
        (1, "OMPI_COMM_WORLD_SIZE", "this Horovod was compiled without MPI: install mpicc"),
        (1, "HOROVOD_SIZE", "Each process started alone: start them with horovodrun"),
    ],
)
def test_another_number_of_ranks_than_configured_is_explained(monkeypatch, size, variable, advice):
    from train.distribution import horovod

    monkeypatch.setattr(horovod.hvd, "mpi_built", lambda: False)
    monkeypatch.setenv(variable, "2")
    assert advice in horovod.size_advice(size)
