import shlex

import pytest

from common.typed_commands import changed

BUDGET = {"measure.budget_s": "600"}


@pytest.mark.parametrize(
    ("command", "variables", "keys", "expected"),
    [
        ("make weak-scaling NODES=2 FORCE=1", {}, BUDGET, "make weak-scaling NODES=2 ARGS=measure.budget_s=600"),
        (
            "make strong-scaling 'ARGS=measure.budget_s=20 seed=3'", {"NODES": "4"}, BUDGET,
            "make strong-scaling NODES=4 'ARGS=seed=3 measure.budget_s=600'",
        ),
        ("make x NODES=2 ONLY=a ARGS=seed=3", {"NODES": "8", "ONLY": ""}, {}, "make x NODES=8 ARGS=seed=3"),
        (  # ARGS would win
            "make x 'ARGS=measure.repeats=1 model=tiny'", {"REPEATS": "8", "MODELS": "tiny"}, {},
            "make x REPEATS=8 MODELS=tiny",
        ),
        (
            "python -m train.launch nodes=2 --force measure.budget_s=20", {}, BUDGET,
            "python -m train.launch nodes=2 measure.budget_s=600",
        ),
    ],
)  # fmt: skip
def test_a_command_has_other_values_and_repeats_nothing(command, variables, keys, expected):
    assert changed(shlex.split(command), variables, keys) == shlex.split(expected)
