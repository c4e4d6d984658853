import pytest

from analysis.predict import fixed
from analysis.table import loading
from analysis.user_table import table as user_table

WALL = "model,ranks,steps_per_rank,batch_per_rank,wall_s,images_per_s\n"


def test_the_fixed_cost_of_a_file_is_that_of_its_wall_times(tmp_path):
    """12 s once, and 0.1 s for each of the steps."""
    path = tmp_path / "curve.csv"
    path.write_text(WALL + "".join(f"vgg,{n},{800 // n},8,{12 + 80 / n},{80 * n}\n" for n in (2, 4, 8, 16)))
    (cost,) = fixed.of_user(user_table.read(path)).values()
    assert cost.value == pytest.approx(12)


def test_a_file_without_wall_times_has_none(tmp_path):
    path = tmp_path / "curve.csv"
    path.write_text("ranks,images_per_s\n1,10\n2,19\n")
    assert fixed.of_user(user_table.read(path)) == {}


def test_the_published_ones():
    costs = fixed.of_table(loading.published(), "the reports")
    assert 5 < costs["vgg19", ""].value < 15  # report 000: 7 to 13 s


def test_local_records_show_it_phase_by_phase(results):
    """Each launch pays a broadcast of 0.4 s and a first step of 6 s, of which 0.5 s is a steady step."""
    for nodes in (1, 2, 4):
        results.add(nodes=nodes, step_s=0.5)
    (cost,) = fixed.of_table(results.table(), "results").values()
    assert cost.value == pytest.approx(5.9)
