"""Exports of a summary, read by the tools that they are for where these are installed (PyPI), and by hand."""

import json
import logging as std_logging

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
    identity |= {"unit": "images/s"}
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


def test_a_performance_log_has_a_line_for_each_point():
    header, first, second = (line.split("|") for line in exports.perflog(POINTS[:2]).splitlines())
    assert header[:4] == ["result", "name", "num_tasks", "num_tasks_per_node"]
    assert header[-5:] == [
        f"speedup_throughput_{part}" for part in ("value", "unit", "ref", "lower_thres", "upper_thres")
    ]
    assert first[:4] == ["pass", "weak_scaling", "1", "1"]
    by_name = dict(zip(header, second, strict=True))
    assert (by_name["images_per_s_value"], by_name["threads_per_rank"]) == ("20.0", "null")
    assert [first[-5:], second[-5:]] == [["None", "1", "0", "None", "None"], ["2", "1", "0", "None", "None"]]
    assert "a/b" in exports.perflog([point(1, 10.0) | {"arm": "a|b"}])


def test_reframe_writes_the_same_of_a_test_with_these_values():
    logging = pytest.importorskip("reframe.core.logging")
    settings = pytest.importorskip("reframe.core.settings")
    [handler] = settings.site_configuration["logging"][0]["handlers_perflog"]
    header, *lines = exports.perflog(POINTS).splitlines()
    names = header.split("|")[: header.split("|").index("images_per_s_value")]
    style = "|".join(f"%(check_{name})s" for name in [*names, "perfvalues"])
    formatter = logging.CheckFieldFormatter(style, perffmt=handler["format_perfvars"])
    for row, line in zip(POINTS, lines, strict=True):
        known = {
            "result": "pass",
            "name": row["experiment"],
            "num_tasks": row["ranks"],
            "job_completion_time_unix": None,
        }
        known |= {"num_tasks_per_node": row["ranks_per_node"]} | row
        record = std_logging.makeLogRecord({f"check_{name}": value for name, value in known.items()})
        speedup = row.get("speedup_throughput", {"value": None})["value"]
        record.check_perfvalues = {
            "cluster:cpu:images_per_s": (row["images_per_s"]["value"], 0, None, None, "images/s", "pass"),
            "cluster:cpu:speedup_throughput": (speedup, 0, None, None, "1", "pass"),
        }
        assert formatter.formatMessage(record) == line
    log = logging.MultiFileHandler("log", fmt=style, perffmt=handler["format_perfvars"])
    assert log._MultiFileHandler__generate_header(record) == header
