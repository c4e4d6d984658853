import argparse
import os
import types

import pytest

from benchmarks import peer

pytestmark = pytest.mark.slow

# Prints the lines that the peer prints around its timed steps.
SCRIPT = """
import argparse, os
parser = argparse.ArgumentParser()
parser.add_argument("--no-cuda", action="store_true")
for name in ("model", "batch-size", "num-iters", "num-warmup-batches", "num-batches-per-iter"):
    parser.add_argument("--" + name)
args = parser.parse_args()
assert (args.model, args.batch_size, args.num_iters, os.environ["TF_USE_LEGACY_KERAS"]) == ("VGG16", "3", "1", "1")
if os.environ["HOROVOD_RANK"] == "0":
    print("Running benchmark...")
    print("Iter #0: 1.0 img/sec per CPU")
    print("Img/sec per CPU: 1.0 +-0.0")
"""


@pytest.fixture
def setting(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    return argparse.Namespace(script=script, model="vgg16", ranks=2, batch=3, steps=10)


def test_the_script_s_rate_is_that_of_all_ranks_by_the_time_between_its_lines(setting, monkeypatch):
    clock = iter([5.0, 7.0])
    monkeypatch.setattr(peer, "time", types.SimpleNamespace(perf_counter=lambda: next(clock)))
    assert peer.script_rate(setting) == 60 / 2  # 2 ranks, 10 steps of 3 images


def test_a_script_that_fails_is_shown(setting):
    setting.script.write_text("raise ValueError('as it said')")
    with pytest.raises(SystemExit, match=r"(?s)script\.py failed with status .*as it said"):
        peer.script_rate(setting)


def test_each_rank_has_the_cores_that_the_kit_would_give_it(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {4, 5, 6, 7})
    assert peer.cores(2) == "4,5:6,7"
    assert peer.cores(8) == "4:5:6:7:4:5:6:7"
