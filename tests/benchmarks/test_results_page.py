import pytest

from benchmarks import results_page
from tests.helpers.own_records import QUOTA, Arm, Results, make_rounds, save
from tests.helpers.own_studies import curve_in_rounds


@pytest.mark.slow
def test_each_experiment_says_when_where_and_with_what_it_was_measured(tmp_path):
    results = Results(tmp_path)
    curve_in_rounds(tmp_path)
    save(make_rounds([(0.5, 0.6, 0.52)] * 6, [Arm(1), Arm(2), Arm(2, allreduce=False)], **QUOTA), tmp_path)
    whole, emulated = results_page.sections(results.study())
    title, made, table = whole.split("\n\n")
    assert title == "## weak_scaling"
    environment = next(iter(results.study().records.values())).environment
    assert environment.git_commit[:7] in made
    assert "; 3 records" in made
    header, _, row = table.splitlines()
    cells = [cell.strip() for cell in header.strip("|").split("|")]
    assert cells == [
        "model", "nodes", "images/s", "speedup", "covers", "efficiency", "without allreduce", "another launch",
    ]  # fmt: skip
    assert "1.58 (1.27 to 1.96)" in row
    assert emulated.startswith("## weak_scaling (emulated: ")
    assert "emulated" not in results_page.readme_table(results.study())
    assert row in results_page.readme_table(results.study())
