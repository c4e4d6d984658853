"""Exports of a summary, by hand."""

import json

from analysis.experiments import exports

IDENTITY = {
    "experiment": "weak_scaling", "model": "resnet50", "arm": 'say "a"', "series": "batch 4", "ranks_per_node": 1,
    "batch_per_rank": 4, "threads_per_rank": None, "note": "", "unit": "images/s",
    "axis": "nodes",
}  # fmt: skip
ONE, TWO = (
    IDENTITY | {"nodes": n, "ranks": n, "images_per_s": {"value": 10.0 * n, "low": 10.0 * n - 1, "high": 10.0 * n + 1}}
    for n in (1, 2)
)
POINTS = [ONE, TWO | {"speedup_throughput": {"value": 2, "low": None, "high": None}}]


def test_extra_p_gets_the_numbers_that_all_sizes_have():
    assert exports.extrap(POINTS).splitlines() == [
        *("PARAMETER ranks", "POINTS 1 2", "REGION resnet50_batch_4", "METRIC images_per_s", "DATA 10.0", "DATA 20.0"),
    ]
    batches = [ONE | {"axis": "global_batch", "axis_value": batch, "series": ""} for batch in (4, 8)]  # on one rank
    regions = [line for line in exports.extrap(batches).splitlines() if line.startswith("REGION")]
    assert regions == ["REGION resnet50_global_batch_4", "REGION resnet50_global_batch_8"]


def test_openmetrics_has_a_line_for_each_number_and_each_end_of_an_interval():
    text = exports.openmetrics(POINTS).splitlines()
    assert text[0] == "# TYPE kit_images_per_s gauge"
    assert text[1].startswith(
        'kit_images_per_s{experiment="weak_scaling",model="resnet50",arm="say \\"a\\"",ranks="1",'
    )
    assert text[1].endswith('threads_per_rank="",series="batch 4"} 10.0')
    assert [line.split()[2] for line in text if line.startswith("# TYPE")] == [
        f"kit_{name}" for name in ("images_per_s", "images_per_s_low", "images_per_s_high", "speedup_throughput")
    ]
    assert text[-1] == "# EOF"


def test_a_line_of_mlperf_has_the_point_and_the_number():
    [line] = exports.mllog([ONE]).splitlines()
    event = json.loads(line.removeprefix(":::MLLOG "))
    assert (event["key"], event["value"], event["metadata"]["ranks"]) == ("images_per_s", 10.0, 1)


def test_a_performance_log_has_a_line_for_each_point():
    header, first, second = (line.split("|") for line in exports.perflog(POINTS).splitlines())
    assert header[:4] == ["result", "name", "num_tasks", "num_tasks_per_node"]
    parts = ("value", "unit", "ref", "lower_thres", "upper_thres")
    assert header[-5:] == [f"speedup_throughput_{part}" for part in parts]
    assert first[:4] == ["pass", "weak_scaling", "1", "1"]
    by_name = dict(zip(header, second, strict=True))
    assert (by_name["images_per_s_value"], by_name["threads_per_rank"]) == ("20.0", "null")
    assert [first[-5:], second[-5:]] == [["None", "1", "0", "None", "None"], ["2", "1", "0", "None", "None"]]
    assert "a/b" in exports.perflog([ONE | {"arm": "a|b"}])
