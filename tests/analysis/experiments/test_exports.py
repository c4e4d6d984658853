"""Exports of a summary, read by the tools that they are for where these are installed (PyPI), and by hand."""

import json

import pytest

from analysis.experiments import exports

_NONE = {"low": None, "high": None}


def point(ranks: int, rate: float, **numbers) -> dict:
    identity = {
        "experiment": "weak_scaling",
        "model": "resnet50",
        "arm": 'say "a"',
        "nodes": ranks,
        "series": "batch 4",
    }
    identity |= {"ranks": ranks, "ranks_per_node": 1, "batch_per_rank": 4, "threads_per_rank": None, "note": ""}
    return identity | {"images_per_s": {"value": rate, "low": rate - 1, "high": rate + 1}} | numbers


POINTS = [
    point(ranks, 10.0 * ranks, **({"speedup_throughput": {"value": ranks, **_NONE}} if ranks > 1 else {}))
    for ranks in (1, 2, 4, 8, 16)
]


def test_extra_p_gets_the_numbers_that_all_sizes_have():
    assert exports.extrap(POINTS[:2]).splitlines() == [
        *("PARAMETER ranks", "POINTS 1 2", "REGION resnet50_batch_4", "METRIC images_per_s", "DATA 10.0", "DATA 20.0"),
    ]


def test_extra_p_reads_it(tmp_path):
    reader = pytest.importorskip("extrap.fileio.file_reader.text_file_reader")
    path = tmp_path / "points.txt"
    path.write_text(exports.extrap(POINTS))
    experiment = reader.TextFileReader().read_experiment(str(path))
    assert [c.as_tuple()[0] for c in experiment.coordinates] == [1, 2, 4, 8, 16]


def test_prometheus_reads_openmetrics():
    parser = pytest.importorskip("prometheus_client.openmetrics.parser")
    families = parser.text_string_to_metric_families(exports.openmetrics(POINTS))
    families = {family.name: family.samples for family in families}
    assert [sample.value for sample in families["kit_images_per_s"]] == [10, 20, 40, 80, 160]
    assert families["kit_images_per_s_low"][0].value == 9
    assert families["kit_images_per_s"][0].labels["arm"] == 'say "a"'
    assert "kit_speedup_throughput_low" not in families


def test_openmetrics_has_a_line_for_each_number():
    text = exports.openmetrics(POINTS[:1]).splitlines()
    assert text[0] == "# TYPE kit_images_per_s gauge"
    assert text[1].endswith('threads_per_rank="",series="batch 4"} 10.0')
    assert text[-1] == "# EOF"


def test_mlperf_reads_its_lines(tmp_path):
    parse = pytest.importorskip("mlperf_logging.compliance_checker.mlp_parser")
    path = tmp_path / "result_0.txt"
    path.write_text(exports.mllog(POINTS))
    lines, errors = parse.parse_file(str(path), ruleset="4.0.0")
    assert errors == []
    assert [line.value["value"] for line in lines if line.key == "images_per_s"] == [10, 20, 40, 80, 160]


def test_a_line_of_mlperf_has_the_point_and_the_number():
    [line] = exports.mllog(POINTS[:1]).splitlines()
    event = json.loads(line.removeprefix(":::MLLOG "))
    assert (event["key"], event["value"], event["metadata"]["ranks"]) == ("images_per_s", 10.0, 1)
