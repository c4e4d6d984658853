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


def test_a_failed_exchange_is_a_lost_peer_also_for_horovods_elastic_mode():
    from horovod.common.exceptions import HorovodInternalError

    from train.transport import PeerLost

    for error in (tf_error("UnknownError", NODE), tf_error("AbortedError", NODE), HorovodInternalError("gone")):
        with pytest.raises(PeerLost, match="an exchange with the other ranks failed") as raised:
            raising(error)
        assert isinstance(raised.value, HorovodInternalError)
        assert raised.value.__cause__ is error


def test_all_other_errors_stay_as_they_are():
    from train.transport import PeerLost

    for error in (
        tf_error("UnknownError", "cuDNN failed"),
        tf_error("FailedPreconditionError", f"Mismatched allreduce tensor shapes {NODE}"),  # no rank is gone
        ValueError("Horovod"),
        PeerLost("once"),
    ):
        with pytest.raises(type(error)) as raised:
            raising(error)
        assert raised.value is error
