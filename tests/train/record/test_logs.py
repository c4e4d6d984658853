"""The rate that a program printed. tests/analysis/user_table tests the readers of known logs."""

import pytest

from train.record import logs

HOROVOD = """\
Model: ResNet50
Batch size: 32
Iter #0: 10.1 img/sec per CPU
Iter #1: 10.3 img/sec per CPU
Img/sec per CPU: 10.2 +-0.1
Total img/sec on 2 CPU(s): 20.4 +-0.3
"""
KERAS = """\
Epoch 1/2
16/16 [==============================] - 9s 562ms/step - loss: 2.3
Epoch 2/2
16/16 [==============================] - 4s 250ms/step - loss: 2.2
"""
MLPERF = """\
:::MLLOG {"key": "run_start", "time_ms": 1000, "value": null}
:::MLLOG {"key": "tracked_stats", "time_ms": 2000, "value": {"throughput": 123.5}}
:::MLLOG {"key": "run_stop", "time_ms": 9000, "value": null}
"""


@pytest.mark.parametrize(
    ("text", "pattern", "rate"),
    [
        (HOROVOD, None, 20.4),
        (HOROVOD, r"Total img/sec on \d+ .*: ([0-9.]+)", 20.4),
        ("[1,0]<stdout>:" + HOROVOD.replace("\n", "\n[1,0]<stdout>:"), None, 20.4),  # through horovodrun
        ("total images/sec: 75.21\n", None, 75.21),  # tf_cnn_benchmarks
        (KERAS, None, 256),  # 64 images in 0.25 s: the first epoch traces
        (MLPERF, None, 123.5),
        ("rate 1,234.5 a second\nrate 1,234.5 a second\n", r"rate (\S+)", 1234.5),  # by two ranks, the same
    ],
)
def test_the_rate_is_found(text, pattern, rate):
    assert logs.printed_rate(text, pattern, global_batch=64).value == pytest.approx(rate)


@pytest.mark.parametrize(
    ("text", "pattern", "problem"),
    [
        ("all is well\n", None, "no rate was printed: unknown log format: set RATE= to how it prints its rate"),
        (HOROVOD, "speed: (.*)", "no rate was printed: RATE=speed"),
        (HOROVOD, r"Iter #\d: ([0-9.]+)", r"2 different rates were printed \(10.1, 10.3\)"),
        ("rate 0.0\n", r"rate (\S+)", "a rate of 0 was printed, must be above 0"),
        ("rate nan\n", r"rate (\S+)", "a rate of nan was printed"),
        ("rate fast\n", r"rate (\S+)", "is not a number"),
    ],
)
def test_output_without_a_valid_rate_is_an_error(text, pattern, problem):
    with pytest.raises(logs.RateError, match=problem):
        logs.printed_rate(text, pattern, global_batch=64)
