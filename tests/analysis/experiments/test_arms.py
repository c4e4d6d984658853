import pytest

from analysis.table import loading
from tests.helpers.drawn_figures import drawn

pytestmark = pytest.mark.slow
ARMS = {"swept": {"model": "resnet50"}, "arm_keys": ["distribution.allreduce"]}


def test_overhead_is_the_ratio_of_the_arms(results):
    for repeat, (with_s, without_s) in enumerate(((0.5, 0.4), (0.5, 0.5), (0.4, 0.4))):
        for allreduce, step in ((True, with_s), (False, without_s)):
            arm = {"backend": "horovod", "allreduce": allreduce, "controller": "gloo"}
            results.add(experiment="overhead", nodes=2, step_s=step, repeat=repeat, distribution=arm, **ARMS)
    figure = drawn("own-overhead", loading.local(results.folder).table)
    (label,) = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert "2 ranks: with allreduce / without" in label
    assert "median 1.000, n=3" in label


def test_overhead_keeps_other_settings_apart(results):
    steps_s = {"flat": {True: 0.5, False: 0.4}, "separate": {True: 0.8, False: 0.4}}
    for gradients, of_arms in steps_s.items():
        for allreduce, step in of_arms.items():
            arm = {"backend": "horovod", "allreduce": allreduce, "controller": "gloo", "gradients": gradients}
            results.add(experiment="overhead", nodes=2, step_s=step, distribution=arm, **ARMS)
    figure = drawn("own-overhead", loading.local(results.folder).table)
    labels = [text.get_text().split("\n")[1:] for text in figure.axes[0].get_yticklabels()]
    assert sorted(labels) == [
        ["flat gradients", "median 0.800, n=1"],
        ["separate gradients", "median 0.500, n=1"],
    ]


def test_arms_that_differ_in_anything_else_are_named(results):
    for precision, step_s in (("fp32", 0.5), ("bf16", 0.4)):
        results.add(
            experiment="mine", step_s=step_s, precision=precision, swept={}, arm=precision, arm_keys=["precision"]
        )  # fmt: skip
    (label,) = [text.get_text() for text in drawn("own-mine", results.table()).axes[0].get_yticklabels()]
    # bf16 comes first by name, so that fp32 is over it: 16 / 20 images/s
    assert label.startswith("ResNet50, 1 rank: fp32 / bf16")
    assert "median 0.800" in label
