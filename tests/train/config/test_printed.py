"""The rate that a program printed. tests/analysis/user_table tests the readers of known logs."""

import pytest

from train.config.printed import RateError, Reading, printed_rate, problem, proposals

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


NANOGPT = """\
iter 0: loss 4.2874, time 1210.77ms, mfu -100.00%
iter 1: loss 4.1912, time 100.00ms, mfu -100.00%
iter 2: loss 4.0122, time 80.00ms, mfu -100.00%
"""
LAMMPS = """\
Loop time of 1.98 on 4 procs for 100 steps with 4000 atoms

Performance: 21835.6 tau/day, 50.5 timesteps/s, 202.1 katom-step/s
"""
GROMACS = """\
               Core t (s)   Wall t (s)        (%)
       Time:       22.258       11.139      199.8
                 (ns/day)    (hour/ns)
Performance:        3.118        7.697
"""
TRAINER = "{'train_runtime': 12.3, 'train_samples_per_second': 8.125, 'train_steps_per_second': 1.0, 'epoch': 1.0}\n"
IMAGENET = """\
Epoch: [0][     1/320292]\tTime 19.193 (19.193)\tData  0.511 ( 0.511)\tLoss 7.0117e+00 (7.0117e+00)
Epoch: [0][     2/320292]\tTime  1.193 (10.193)\tData  0.002 ( 0.257)\tLoss 6.9117e+00 (6.9617e+00)
"""
TIMM = """\
Train: 0 [   0/1251 (  0%)]  Loss: 6.95 (6.95)  Time: 2.004s,  127.77/s  (2.004s,  127.77/s)  LR: 1.000e-05
Train: 0 [  50/1251 (  4%)]  Loss: 6.94 (6.95)  Time: 0.246s, 1040.65/s  (0.280s,  914.29/s)  LR: 1.000e-05
"""
OF_JOB = {"ranks": 2, "step_work": 64.0, "work_unit": "images"}  # a global batch of 64


@pytest.mark.parametrize(
    ("text", "settings", "rate", "unit"),
    [
        (HOROVOD, {}, 20.4, "images/s"),
        ("[1,0]<stdout>:" + HOROVOD.replace("\n", "\n[1,0]<stdout>:"), {}, 20.4, "images/s"),  # through horovodrun
        ("total images/sec: 75.21\n", {}, 75.21, "images/s"),  # tf_cnn_benchmarks
        (KERAS, {}, 256, "images/s"),  # 64 images in 0.25 s: the first epoch traces
        (LAMMPS, {}, 50.5 * 64, "images/s"),
        (GROMACS, {}, 3.118, "ns/day"),
        (TRAINER, {}, 8.125, "samples/s"),
        (TIMM, {}, 914.29, "images/s"),
        (NANOGPT, {}, (640 + 800) / 2, "images/s"),  # the median of all rates but the first
        (IMAGENET, {}, 64 / 1.193, "images/s"),  # the median of all steps but the first
        ("tokens per iteration will be: 12,288\n" + NANOGPT, {"pick": "last"}, 12288 / 0.08, "tokens/s"),
        ("# Avg bus bandwidth    : 12.25 \n", {}, 12.25, "GB/s"),
        ("SamplesPerSec=9, RunningAvgSamplesPerSec=8.5, CurrSamplesPerSec=9.5\n", {}, 8.5, "samples/s"),
        ("rate 1,234.5\nrate 1,234.5\n", {"rate": r"rate (\S+)", "pick": "last"}, 1234.5, ""),
        ("5 it/s\r3.1 s/it\r", {"rate": "^{rate}", "pick": "last"}, 64 / 3.1, "images/s"),  # tqdm
        ("0.25 s/image", {"time": "^{time}"}, 4, "image/s"),
        ("2 days/ns", {"rate": "^{rate}"}, 0.5, "ns/day"),
        ("800 MiB/s\n1.5 GiB/s", {"rate": "^{rate}", "unit": "MiB/s", "pick": "last"}, 1536, "MiB/s"),
        ("speed: 1234,5", {"rate": "speed: {rate}", "unit": "cells/s"}, 1234.5, "cells/s"),
        ("speed: 1,234", {"rate": "speed: {rate}", "decimal": "."}, 1234, ""),
        ("12.5 img/sec per GPU", {"rate": "^{rate}", "each_rank": True}, 25, "img/s"),
        ("12.5 img/sec per GPU", {"rate": "^{rate}", "each_rank": False}, 12.5, "img/s"),
        ("12.5 img/sec by /opt/core-train/bin/node/run", {"rate": "^{rate}"}, 12.5, "img/s"),  # a path names no rank
        (LAMMPS, {"rate": "{rate} timesteps/s"}, 50.5 * 64, "images/s"),
        (LAMMPS, {"time": "Loop time of {time}", "unit": "s"}, 64 / 1.98, "images/s"),
        (NANOGPT, {"time": "time {time}", "pick": "mean", "skip": 1}, 2 * 64 / 0.18, "images/s"),
        ("took 0:01:04", {"time": "took {time}"}, 1, "images/s"),
        ("rank 0: 5 it\nrank 1: 7 it\n", {"rate": r"rank \d: {rate} it", "pick": "sum"}, 12, "it"),
        ("  PWSCF  :   1m13.70s CPU   1m15.02s WALL\n", {"time": "CPU +{time} +WALL"}, 64 / 75.02, "images/s"),
        ("\nreal\t1m2.345s\nuser\t0m1.001s\n", {"time": "^real\\s+{time}"}, 64 / 62.345, "images/s"),
        ("frame= 1 fps=0.0 speed=N/A    \rframe=   60 fps=0.0 speed=60.9x    \n", {"rate": "speed={rate}"}, 60.9, "x"),
        ("stress-ng: metrc: [9] cpu  200  0.44  458.01\n", {"rate": r"\] cpu( +\S+){2} +{rate}"}, 458.01, ""),
        (" throughput (TFLOP/s/GPU): 30.1 |\n", {"rate": r"GPU\): {rate}", "each_rank": True}, 60.2, "TFLOP/s"),
    ],
)
def test_the_rate_is_found(text, settings, rate, unit):
    printed = printed_rate(text, Reading(**OF_JOB | settings))
    assert (printed.value, printed.unit) == (pytest.approx(rate), unit)


@pytest.mark.parametrize(
    ("text", "settings", "message"),
    [
        ("all is well\n", {}, "no rate was printed: this log is not known; give RATE="),
        (HOROVOD, {"rate": "speed: {rate}"}, "no rate was printed: speed: {rate} matches no line of the output"),
        ("1,234.5 img/s", {"rate": "([0-9.]+)"}, "the number is a part of 1,234.5, in '1,234.5 img/s'"),
        ("speed 1,234", {"rate": "speed {rate}"}, "1,234 may be 1234 or 1.234"),
        (NANOGPT, {"rate": "time ([0-9.]+)ms"}, "a time is printed, not a rate: 1.21077 s"),
        ("3.1 it/s", {"time": "{time}"}, "a rate is printed, not a time: 3.1 it/s"),
        ("took 31 s", {"time": "took {time}"}, "31 s is more than the 20 s that the launch ran"),
        (NANOGPT, {"time": "time {time}"}, "3 rates were printed:"),
        (NANOGPT, {"time": "time {time}", "skip": 3, "pick": "mean"}, "program.skip=3 leaves out all of them"),
        ("step 12", {"time": "step {time}"}, "no unit is printed after the time 12"),
        ("12.5 img/sec per GPU", {"rate": "^{rate}"}, "'GPU' is on the line: the number may be the rate of one rank"),
        ("51 img/s\n51 img/s", {"rate": "{rate} img"}, "2 rates were printed:"),  # of two ranks, or the same twice
        ("5 tok/s\n6 Ktok/s", {"rate": "{rate}"}, "rates in different units were printed, Ktok/s and tok/s"),
        ("it 5 x\n", {"rate": "it {rate} x", "pick": "sum"}, "adds a rate of each of 2 ranks, and 1 rate was printed"),
        ("rate nan\n", {"rate": r"rate (\S+)"}, "nan was printed, must be above 0"),
        ("rate fast\n", {"rate": r"rate (\S+)"}, "'fast' is not a number"),
    ],
)
def test_output_without_one_clear_rate_is_an_error_that_says_what_to_type(text, settings, message):
    with pytest.raises(RateError) as error:
        printed_rate(text, Reading(**OF_JOB | settings), running_s=20.0)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("text", "first"),
    [
        (LAMMPS.replace("timesteps/s", "moves/s"), "RATE='Performance: {rate}'"),
        (NANOGPT, "TIME='time {time}'"),
        (IMAGENET, "TIME='Time +{time}'"),  # of pytorch/examples; its unit is asked for
        ("samples: 3\nthroughput 12.5 samples/s\n", "RATE='throughput {rate}'"),
        ("100%|###| 9/9 [00:09<00:00, 1.11s/it]\n", "RATE='{rate} ?(?:it/s|s/it)'"),  # it/s at another size
        ("[rank0]:2026-11-29 07:00:01 - root - step:  1  tps: 40,960  mfu: 12.50%\n", "RATE='tps: {rate}'"),
        (HOROVOD, r"RATE='Total img/sec on \d+ CPU\(s\): {rate}'"),  # not the number of CPUs
    ],
)
def test_a_log_that_is_not_known_gets_proposals(text, first):
    assert proposals(text)[0] == first
    assert "RATE='Total img/sec on {rate}'" not in proposals(text)


def test_no_option_of_the_command_and_no_learning_rate_is_proposed():
    text = "input rate: 30 fps\nlearning rate: 1.5E-04\nUser: 3\nspeed=N/A\nreal\t1m2.5s\n"
    assert proposals(text, "ffmpeg -i testsrc=rate=30") == [r"TIME='real\s{time}'"]


@pytest.mark.parametrize(
    ("rate", "time", "message"),
    [
        (None, None, ""),
        ("rate: {rate}", None, ""),
        (None, "{time} ms", ""),
        ("rate: ([0-9.]+)", None, ""),
        ("rate: [0-9.]+", None, "put {rate} where the number is"),
        ("rate: ([0-9.]+", None, "not a regular expression"),
        ("{rate}", "{time}", "give RATE or TIME, not both"),
    ],
)
def test_patterns_that_find_no_number_are_named(rate, time, message):
    assert problem(rate, time).startswith(message)
    assert bool(problem(rate, time)) == bool(message)
