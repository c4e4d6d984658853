from analysis.__main__ import main
from analysis.table import loading


def test_the_command_prints_each_curve_in_a_hundred_columns(capsys):
    assert main(["explain", str(loading.PUBLISHED / "000_hacksa.csv")]) == 0
    shown = capsys.readouterr().out
    assert shown.count("They differ because each run pays") == 3
    assert max(map(len, shown.splitlines())) <= 100


def test_an_experiment_without_records_is_said(tmp_path, capsys):
    assert main(["explain", "--experiment", "fixed_work", "--results", str(tmp_path)]) == 2
    assert "no record of experiment 'fixed_work'" in capsys.readouterr().err


def test_the_method_is_checked_against_the_phases_of_local_records(results, capsys):
    # Each run pays a broadcast of 0.4 s and a first step of 6 s, of which 0.5 s is a steady step: 5.9 s once.
    for nodes, steps in ((1, 77), (2, 37), (4, 17), (8, 7)):
        measure = {"name": "quick", "warm_up_steps": 2, "timed_steps": steps, "total_steps": 80, "repeats": 3}
        results.add(experiment="fixed_work", nodes=nodes, steps=steps, measure=measure)
    assert main(["explain", "--experiment", "fixed_work", "--results", str(results.folder)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "each run pays 5.9 s (5.9 to 5.9) once" in shown
    assert "Measured: 5.9 s (median). The regression, which used no phase, estimated 5.9 s (5.9 to 5.9)" in shown
