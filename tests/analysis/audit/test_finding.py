import pytest

from analysis.audit.finding import graded, rule


def test_a_rule_is_listed_by_its_name_and_stays_what_it_was():
    rules = {}

    @rule(rules)
    def second(table):
        """Why."""

    @rule(rules)
    def first(table):
        """Why not."""

    assert rules == {"second": second, "first": first}
    assert list(rules) == ["second", "first"]  # in the order of their modules
    assert second.__doc__ == "Why."


@pytest.mark.parametrize(
    ("off", "severity"),
    [(0.0, "note"), (0.0199, "note"), (0.02, "warning"), (-0.05, "warning"), (0.10, "serious"), (-0.5, "serious")],
)
def test_a_difference_is_graded_by_its_size_whatever_its_sign(off, severity):
    assert graded(off) == severity


def test_a_rule_may_have_bounds_of_its_own():
    assert [graded(off, warning=0.2, serious=0.5) for off in (0.1, 0.2, 0.5)] == ["note", "warning", "serious"]
