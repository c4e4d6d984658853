"""The part of the font: figures look as with the whole one, and their PDFs embed it."""

import io

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import font_manager
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from analysis.figures import fonts, plots

pytestmark = pytest.mark.slow


def figure(text: str, weight: str) -> Figure:
    drawn = Figure(figsize=(3, 0.5), dpi=300)
    drawn.text(0.02, 0.3, text, weight=weight)
    return drawn


def pixels(text: str, weight: str) -> np.ndarray:
    canvas = FigureCanvasAgg(figure(text, weight))
    canvas.draw()
    return np.asarray(canvas.buffer_rgba()).copy()


@pytest.mark.parametrize("weight", ["normal", "bold"])
@pytest.mark.parametrize("text", ["AVATo fi ffl 0.95x [images/s] é ± − “a” …", "Ω ≤ 3 µs, α → β"])
def test_texts_look_the_same(text, weight):
    with mpl.rc_context(fname=plots.STYLE):
        whole = pixels(text, weight)
        with fonts.quick_to_embed():
            assert (pixels(text, weight) == whole).all()
        assert (pixels("another", weight) != whole).any()


def test_it_is_the_part_that_is_embedded_and_only_within_the_context():
    with mpl.rc_context(fname=plots.STYLE):
        with fonts.quick_to_embed():
            path = font_manager.findfont(font_manager.FontProperties(weight="bold"))
            buffer = io.BytesIO()
            figure("0.95", "bold").savefig(buffer, format="pdf")
        assert path.endswith("/bold.ttf")
        assert b"DejaVuSans-Bold" in buffer.getvalue()  # as the whole font is called
        assert not font_manager.findfont(font_manager.FontProperties(weight="bold")).endswith("/bold.ttf")
