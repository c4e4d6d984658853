import re

import pytest


def test_a_curve_that_cannot_be_split_is_named(command, tmp_path):
    path = tmp_path / "one.csv"
    path.write_text("GPUs;Steps;Batch per GPU;Time [s]\n1;10;8;3,5\n2;10;8;fast\n")
    output = " ".join(command("explain", path, status=1).out.split())
    assert "not split: 1 run: a fixed cost and a cost per step need 3" in output
    assert "line 3, column 'Time [s]': 'fast' is not a number" in output
    assert "'Batch per GPU' -> batch_per_rank, of one rank" in output


@pytest.mark.slow
def test_the_phases_of_local_records_show_what_is_paid_once(command, results):
    # Each run pays a broadcast of 0.4 s and a first step of 6 s, of which 0.5 s is a steady step: 5.9 s once.
    for nodes, steps in ((1, 77), (2, 37), (4, 17), (8, 7)):
        results.add(experiment="fixed_work", nodes=nodes, steps=steps, **{"measure.total_steps": 80})
    output = " ".join(command("explain", "--experiment", "fixed_work", "--results", results.folder).out.split())
    assert re.search(r"Each run has a fixed cost of 5\.9 s \(5\.\d+ to 6\.\d+\): the phases of the records", output)
