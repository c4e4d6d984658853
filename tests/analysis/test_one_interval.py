"""A speedup has one interval, whichever command shows it."""

import json
from dataclasses import replace

import pytest

from record import intervals, rounds
from tests.helpers.kit import analyse
from tests.helpers.launched_curves import add, curve
from tests.helpers.run_records import make_rounds, save
from train.launch import curve_table
from train.launch.plan import launch_results
from train.launch.plan.launch_results import CurveState

# Ratios of two nodes over one in six rounds of each launch. Those of one model are beyond the ideal, which the audit
# names, and those of its launches are apart.
RATIOS = {
    "resnet50": ([1.50, 1.53, 1.51, 1.54, 1.55, 1.52], [1.52, 1.54, 1.56, 1.53, 1.51, 1.55]),
    "vgg16": ([4.20, 4.23, 4.21, 4.24, 4.25, 4.22], [4.40, 4.43, 4.41, 4.44, 4.45, 4.42]),
}
DRIFTING = [1.5 + 0.01 * number for number in range(24)]
PER_DOUBLING = "efficiency_throughput_per_doubling"


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # `reference` writes a file there
    for model, of_launches in RATIOS.items():
        for repeat, ratios in enumerate(of_launches):
            run = make_rounds([(1.0, 2 / ratio, 1.0) for ratio in ratios], repeat=repeat, model=model)
            save(run, tmp_path / "results")
    return tmp_path / "results"


@pytest.mark.slow
def test_all_commands_show_the_interval_of_the_launcher(results):
    commands = ("summary weak_scaling", "diagnose weak_scaling", "history weak_scaling", "compare", "audit results")
    documents = {name.split()[0]: json.loads(analyse(*name.split(), "--format", "json")) for name in commands}
    analyse("reference", "here")
    stored = json.loads((results.parent / "references/here.json").read_text())["points"]

    homes = [*results.glob("weak_scaling/*rounds/*")]
    assert len(homes) == len(RATIOS)

    def ends(number: dict) -> list[float]:
        return [number[name] for name in ("value", "low", "high")]

    def only(rows: list[dict], **where: object) -> dict:
        (result,) = [row for row in rows if where.items() <= row.items()]
        return result

    for records in map(launch_results.curve_records, homes):
        model = records[0].config["model"]["name"]
        (live,) = rounds.point_speedups(records).values()
        (machine,), two_nodes = documents["history"]["machines"], {"quantity": "speedup", "point": "2 nodes"}
        efficiencies = (
            only(documents["summary"], model=model, nodes=2, arm="")["efficiency_throughput"],
            only(documents["diagnose"]["curves"], model=model)["points"][-1]["efficiency_throughput"],
            only(documents["compare"]["comparisons"], model=model, quantity=PER_DOUBLING)["measured"],
        )
        speedups = only(stored, model=model, **two_nodes), only(machine["points"], model=model, **two_nodes)["measured"]
        halves = [[end / 2 for end in ends(number)] for number in speedups]
        expected = pytest.approx([live.value / 2, live.low / 2, live.high / 2])
        assert [*halves, *map(ends, efficiencies)] == [expected] * 5
        findings = [finding for finding in documents["audit"]["findings"] if model in finding["place"]]
        texts = {finding["rule"]: finding["stated"] + finding["meaning"] for finding in findings}
        assert (f"Efficiency {live.over(2)}: " in texts.get("beyond_ideal", "")) == (live.value > 2)
        one = next(iter(rounds.point_speedups(records[:1]).values()))
        assert (f": {one.value:.3g}x in one launch" in texts.get("launches_apart", "")) == (model == "vgg16")


def test_the_launcher_says_why_a_launch_that_drifts_has_no_interval(tmp_path):
    point = curve(tmp_path)
    one = CurveState(point, [add(point, 0, DRIFTING)], 1)
    assert intervals.DRIFTS in launch_results.shortfall(one).reasons
    assert curve_table.table([one]).caption.endswith(f"\ntiny: no interval: {intervals.DRIFTS}")
    assert intervals.DRIFTS not in curve_table.table([replace(one, planned=3)]).caption  # more are to come
