import numpy as np
import pytest

from analysis.figures import prediction_figure
from analysis.predict import predicted_targets
from analysis.predict.predicted_targets import JobQuestion
from tests.helpers.scaling_curves import LEARNED, curve

pytestmark = pytest.mark.slow


def test_a_panel_a_curve_with_points_band_ideal_limit_and_targets():
    linked, single = curve(lambda n: 0.1, ranks_per_node=1.0, link_s=0.032), curve(lambda n: 0.01, ranks=(1,))
    supported, unsupported = (
        predicted_targets.answer(each, JobQuestion((32, 128)), LEARNED) for each in (linked, single)
    )
    (axes,) = prediction_figure.draw([supported, unsupported], lambda _: LEARNED).axes
    labels = {"measured", "target", "predicted", "ideal", "90 % interval", "limit"}
    assert labels <= set(axes.get_legend_handles_labels()[1])
    targets = next(line for line in axes.lines if line.get_label() == "target")
    assert targets.get_xdata().tolist() == [32, 128]
    assert targets.get_ydata() == pytest.approx([t.images_per_s.value / t.ranks for t in supported.targets])
    assert np.ptp(axes.collections[0].get_paths()[0].vertices[:, 1]) > 0  # the band
