def test_a_curve_that_cannot_be_split_is_named(command, tmp_path):
    path = tmp_path / "one.csv"
    path.write_text("GPUs;Steps;Batch per GPU;Time [s]\n1;10;8;3,5\n2;10;8;fast\n")
    output = " ".join(command("explain", path, status=1).out.split())
    assert "not split: 1 run: a fixed cost and a cost per step need 3" in output
    assert "line 3, column 'Time [s]': 'fast' is not a number" in output
    assert "'Batch per GPU' -> batch_per_rank, of one rank" in output
