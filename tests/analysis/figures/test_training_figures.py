from dataclasses import replace

import pytest

from tests.helpers.drawn_figures import draw
from tests.helpers.run_records import make_record, save
from tests.helpers.studies import EPOCHS

pytestmark = pytest.mark.slow


def test_shared_cores_spoil_the_time_to_accuracy_and_not_the_epochs(results):
    results.add(experiment="accuracy_digits", nodes=1, epochs=EPOCHS)
    save(replace(make_record("accuracy_digits", nodes=2, epochs=EPOCHS), cores_shared=True), results.folder)
    for id, hollow in (("time-to-accuracy", [[2], [], [2]]), ("curves", [[], []])):
        figure = draw(f"own-accuracy-digits-{id}", results.table())
        marks = [[line for line in axes.get_lines() if line.get_markerfacecolor() == "white"] for axes in figure.axes]
        assert [[x for line in lines for x in line.get_xdata()] for lines in marks] == hollow
        assert ("shared cores" in figure.legends[0].get_title().get_text()) == any(hollow)


def test_the_dot_is_where_the_first_step_begins_and_runs_without_samples_do_no_harm(results):
    bare = make_record("accuracy_digits", nodes=2, epochs=EPOCHS)
    for rank in bare.ranks:
        rank.usage = None
    save(bare, results.folder)
    figure = draw("own-accuracy-digits-usage", results.table())
    assert [text.get_text() for text in figure.axes[0].texts] == ["no samples: measure.usage_period_s=null"]
    results.add(experiment="accuracy_digits", nodes=1, epochs=EPOCHS)
    figure = draw("own-accuracy-digits-usage", results.table())
    assert len(figure.axes) == 2
    dots = [line for line in figure.axes[0].get_lines() if line.get_marker() == "o" and len(line.get_xdata())]
    # The phases before it: 0.5 + 3 + 0.5 + 0.1 + 2 + 0.4 s; half of the core is in use.
    assert [(list(dot.get_xdata()), list(dot.get_ydata())) for dot in dots] == [([pytest.approx(6.5)], [0.5])]
