"""A speedup has one interval, whichever command shows it."""

import json

import pytest

from record import rounds
from tests.helpers.kit import analyse
from tests.helpers.run_records import make_rounds, save
from train.launch.plan import launch_results

# Ratios of two nodes over one in six rounds of each launch: one model's launches differ by far more than the other's.
RATIOS = {
    "resnet50": ([1.50, 1.53, 1.51, 1.54, 1.55, 1.52], [1.52, 1.54, 1.56, 1.53, 1.51, 1.55]),
    "vgg16": ([1.20, 1.23, 1.21, 1.24, 1.25, 1.22], [1.40, 1.43, 1.41, 1.44, 1.45, 1.42]),
}
PER_DOUBLING = "efficiency_throughput_per_doubling"


@pytest.fixture
def results(tmp_path):
    for model, of_launches in RATIOS.items():
        for repeat, ratios in enumerate(of_launches):
            save(make_rounds([(1.0, 2 / ratio, 1.0) for ratio in ratios], repeat=repeat, model=model), tmp_path)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("model", RATIOS)
def test_all_commands_show_the_interval_of_the_launcher(results, model):
    curves = map(launch_results.curve_records, results.glob("weak_scaling/*rounds/*"))
    (records,) = [curve for curve in curves if curve[0].config["model"]["name"] == model]
    by_arm = rounds.speedups(records)
    live = next(interval for name, interval in by_arm.items() if not name.endswith("without-allreduce"))
    expected = pytest.approx([live.value / 2, live.low / 2, live.high / 2])

    def document(*arguments: str):
        return json.loads(analyse(*arguments))

    def ends(number: dict) -> list[float]:
        return [number[name] for name in ("value", "low", "high")]

    options = ("--results", str(results), "--format", "json")
    rows = document("summary", "weak_scaling", *options)
    (point,) = [row for row in rows if (row["model"], row["nodes"], row["arm"]) == (model, 2, "")]
    assert ends(point["efficiency_throughput"]) == expected
    (curve,) = [curve for curve in document("diagnose", "weak_scaling", *options)["curves"] if curve["model"] == model]
    assert ends(curve["points"][-1]["efficiency_throughput"]) == expected
    compared = json.loads(analyse("compare", *options))["comparisons"]
    (number,) = [row for row in compared if (row["model"], row["quantity"]) == (model, PER_DOUBLING)]
    assert ends(number["measured"]) == expected
