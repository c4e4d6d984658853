import matplotlib as mpl
import pytest

from analysis.figures import plots


def test_lines_with_a_point_at_the_same_x_stand_side_by_side():
    arguments = (("alone", [1.0]), ("a", [2.0, 4.0]), ("b", [2.0, 4.0]), ("c", [4.0]))
    alone, a, b, c = plots.side_by_side([plots.Line(name, x, x, raw=(x, x)) for name, x in arguments])
    assert (alone.x, b.x) == ([1.0], [2.0, 4.0])
    assert (a.x, a.raw[0]) == (pytest.approx([2 / 1.045, 4 / 1.045]), a.x)
    assert (a.y, a.raw[1]) == ([2.0, 4.0], [2.0, 4.0])
    assert c.x == pytest.approx([4 * 1.045])
    many = plots.side_by_side([plots.Line(f"{n}", [1.0], [1.0]) for n in range(15)], beside=1.1)
    assert many[-1].x[0] / many[0].x[0] == pytest.approx(1.1**7)  # as far apart as eight


def test_a_long_legend_takes_no_height_from_the_axes():
    def drawn(notes, labels):
        figure, (axes,) = plots.canvas(height_mm=70)
        for label in range(labels):
            axes.plot([0, 1], [0, label], label=f"a label so long that it has a line of its own, {label}")
        plots.legend(figure, "\n".join(["a note"] * notes))
        figure.get_layout_engine().execute(figure)
        return figure.get_figheight() / plots.MM, axes.get_window_extent().height / figure.dpi / plots.MM

    with mpl.rc_context(fname=plots.STYLE):
        (usual, _), (higher, with_few), (highest, with_many) = drawn(0, 4), drawn(2, 6), drawn(8, 12)
    assert usual == 70
    assert highest > higher > 70
    assert with_many == pytest.approx(with_few, abs=0.1)
