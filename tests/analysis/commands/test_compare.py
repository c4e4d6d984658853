import pytest

from analysis.__main__ import main


@pytest.mark.slow
def test_the_command_in_three_formats(results, capsys, json_output):
    for nodes, step_s in ((1, 0.5), (8, 0.6)):
        results.add(nodes=nodes, step_s=step_s)
    argv = ["compare", "--results", str(results.folder)]
    assert main(argv) == 0
    table = capsys.readouterr().out
    assert "report 001, weak_scaling: cpu, OSC Owens" in table
    assert "Published numbers without a local counterpart" in table
    assert main([*argv, "--format", "markdown"]) == 0
    assert "| resnet50 | speedup_throughput [x]" in capsys.readouterr().out
    document = json_output(*argv)
    assert {row["verdict"] for row in document["comparisons"]} == {"not decidable", "for information"}


@pytest.mark.slow
def test_an_empty_folder_is_said(tmp_path, capsys):
    assert main(["compare", "--results", str(tmp_path)]) == 0
    assert f"no complete run in {tmp_path} has a counterpart" in capsys.readouterr().out
