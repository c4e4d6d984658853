import pytest

from tests.helpers.drawn_figures import drawn
from tests.helpers.own_studies import EPOCHS

pytestmark = pytest.mark.slow


def test_local_fruit_and_local_caltech256_are_distinguished(results):
    for experiment in ("fruit", "caltech256"):
        for nodes in (2, 4):
            results.add(experiment=experiment, model="tiny", nodes=nodes, step_s=0.1, epochs=EPOCHS)
    result = drawn("004-epoch-time", results.table()).axes[0].get_lines()
    of = {line.get_label().split(",")[0]: line for line in result if ", local" in line.get_label()}
    for looks in ("get_color", "get_marker", "get_linestyle"):
        assert getattr(of["fruit"], looks)() != getattr(of["Caltech256"], looks)()
