import pytest

pytestmark = pytest.mark.slow


def space():
    """What TensorFlow's profiler writes of one thread: the steps from 2 ms on, an operation in them, one before."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    made = xplane_pb2.XSpace()
    plane = made.planes.add(name="/host:CPU")
    line = plane.lines.add(id=7, name="worker", timestamp_ns=1_763_900_000_000_000_000)
    for id, name, offset_ps, duration_ps in (
        (1, "profiled steps", 2_000_000_000, 500_000_000_000),
        (2, "Conv2D", 2_000_001_500, 300_000_000),
        (3, "before", 1_000_000_000, 1_000),
    ):
        plane.event_metadata[id].name = name
        line.events.add(metadata_id=id, offset_ps=offset_ps, duration_ps=duration_ps)
    return made


def test_operations_are_placed_by_the_begin_of_the_steps_to_the_picosecond():
    from train.loop.timeline import operations

    assert operations(space()) == [("worker/7", "Conv2D", 0.0015, 300.0), ("worker/7", "before", -1000.0, 0.001)]
