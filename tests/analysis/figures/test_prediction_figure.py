import numpy as np
import pytest

from analysis.figures import prediction_figure
from analysis.predict import predicted_targets
from analysis.predict.predicted_targets import JobQuestion
from tests.helpers.scaling_curves import LEARNED, curve

pytestmark = pytest.mark.slow


def test_a_panel_a_curve_with_points_band_ideal_and_targets():
    supported = predicted_targets.answer(curve(lambda n: 0.01 * (1 + 0.02 * n**0.5)), JobQuestion((32, 128)), LEARNED)
    unsupported = predicted_targets.answer(curve(lambda n: 0.01, ranks=(1,)), JobQuestion((32,)), LEARNED)
    figure = prediction_figure.draw([supported, unsupported], lambda _: LEARNED)
    (axes,) = figure.axes
    assert {"measured", "target", "predicted", "ideal", "90 % interval"} <= set(axes.get_legend_handles_labels()[1])
    targets = next(line for line in axes.lines if line.get_label() == "target")
    assert targets.get_xdata().tolist() == [32, 128]
    assert targets.get_ydata() == pytest.approx([t.images_per_s.value / t.ranks for t in supported.targets])
    band = axes.collections[0]
    assert np.ptp(band.get_paths()[0].vertices[:, 1]) > 0


def test_the_limit_of_the_link_is_drawn_where_it_is_known():
    linked = curve(lambda n: 0.1, ranks_per_node=1.0, link_s=0.032)
    figure = prediction_figure.draw([predicted_targets.answer(linked, JobQuestion((64,)), LEARNED)], lambda _: LEARNED)
    assert "limit" in figure.axes[0].get_legend_handles_labels()[1]
