import pytest

from benchmarks import results_page
from tests.helpers.run_records import QUOTA, Arm, Results, make_rounds, save
from tests.helpers.studies import curve_in_rounds


@pytest.mark.slow
def test_each_experiment_says_when_where_and_with_what_it_was_measured(tmp_path):
    results = Results(tmp_path)
    curve_in_rounds(tmp_path)
    save(make_rounds([(0.5, 0.6, 0.52)] * 6, [Arm(1), Arm(2), Arm(2, allreduce=False)], **QUOTA), tmp_path)
    sections = results_page.sections(results.study())
    environment = next(iter(results.study().records.values())).environment
    host = environment.hosts[0]
    cpu = f"{host.cpu_model}, {host.cores} cores"
    emulated = next(title for title in sections if "emulated" in title)
    assert set(sections) == {f"weak_scaling ({cpu})", emulated}
    assert emulated.startswith(f"weak_scaling ({cpu}; emulated: ")
    origin, table, notes = sections[f"weak_scaling ({cpu})"].rstrip().split("\n\n")
    assert notes.startswith("In brackets: 95 % interval, for launches like these")
    assert environment.git_commit[:7] in origin
    assert "; 3 records" in origin
    header, _, row = table.splitlines()
    assert [cell.strip() for cell in header.split("|")][-3:-1] == ["efficiency", "without allreduce"]
    assert "| 1.57 (1." in row
    assert "emulated" not in results_page.readme_table(results.study())
    assert row in results_page.readme_table(results.study())


def test_a_page_keeps_the_sections_of_other_machines():
    page = "# Results\n\nFrom records.\n\n## weak_scaling (A)\n\nold\n\n| 1 |\n\n## overhead (B)\n\nother\n"
    assert results_page.sections_of(page) == {"weak_scaling (A)": "old\n\n| 1 |\n", "overhead (B)": "other\n"}
