import pytest

from benchmarks import audit_power


@pytest.mark.slow
def test_a_line_counts_the_studies_that_are_named_and_the_rules_that_do():
    clean, faulty = audit_power.cases()[2], next(case for case in audit_power.cases() if "base 1.3" in case[0])
    lines = list(audit_power.study_power([clean, faulty], 1))
    assert lines[0] == ["clean: noise 1%, n=3, 97% kept", "0.000 (0.000 to 0.975)", "none"]
    assert lines[1][:2] == ["base 1.3 times too slow; noise 1%, n=1", "1.000 (0.025 to 1.000)"]
    assert "beyond_ideal 1.000" in str(lines[1][2])
