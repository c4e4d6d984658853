import functools
from dataclasses import replace

import pytest

from analysis import TableError, proposal
from analysis.proposal import JobPlan
from analysis.proposal.facts import BLANK
from analysis.study import Study
from tests.helpers.run_records import QUOTA, Arm, make_rounds, save
from tests.helpers.studies import long_curve

pytestmark = pytest.mark.slow
BOTH = ("weak_scaling", "strong_scaling")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("proposal")
    long_curve(folder, "weak_scaling", (1, 0.95, 0.91, 0.88))
    long_curve(folder, "strong_scaling", (1, 0.92, 0.80, 0.60), strong=True)
    return folder


study = functools.cache(Study)


@functools.cache
def new_proposal(results, experiments=BOTH, **plan):
    return proposal.proposal(study(results), experiments, JobPlan(**plan))


def test_weak_and_strong_scaling_are_distinguished_and_judged(results):
    content = new_proposal(results)
    (weak,), (strong,) = content.curves_in("weak"), content.curves_in("strong")
    assert [row.verdict for row in weak.measured] == ["base of the curve", *["meets it"] * 3]
    assert [row.verdict for row in strong.measured] == ["base of the curve", "meets it", "meets it", "below it"]
    assert [row.efficiency.value for row in weak.measured] == pytest.approx([1, 0.95, 0.91, 0.88], rel=0.005)
    assert (weak.supported, strong.supported) == (8, 4)
    assert "support 8 nodes at an efficiency of 75 %: on 8, the most" in proposal.sentence(weak, 0.75)
    assert "support 4 nodes at an efficiency of 75 %; on 8 nodes the efficiency 0.60" in proposal.sentence(strong, 0.75)


def test_a_threshold_within_the_interval_is_not_decided(results):
    (weak,) = new_proposal(results, threshold=0.88).curves_in("weak")
    assert (weak.rows[3].verdict, weak.supported) == ("not decidable", 2)
    assert "is not decidable" in proposal.sentence(weak, 0.88)


def test_time_and_node_hours_of_a_run_follow_from_the_rate(results):
    """64 images/s less 1 % on average: 640,000 images take 10,100 s, 2.8 h; on 8 nodes an eighth of that, over 0.88."""
    (weak,) = new_proposal(results, images=640_000, runs=3, from_user=True).curves_in("weak")
    one, *_, eight = weak.rows[:4]
    assert one.hours.value == pytest.approx(10_100 / 3600, rel=0.002)
    assert eight.hours.value == pytest.approx(10_100 / 3600 / 8 / 0.88, rel=0.005)
    assert eight.node_hours.value == pytest.approx(10_100 / 3600 / 0.88, rel=0.005)
    assert eight.node_hours.low < eight.node_hours.value < eight.node_hours.high


def test_the_first_gain_is_the_speedup_and_the_second_is_over_the_size_before(results):
    """0.95 and 0.91 of the ideal on 2 and 4 nodes: gains of 1.90 of 2, and 2 x 0.91 / 0.95 = 1.916 of 2."""
    (weak,) = new_proposal(results).curves_in("weak")
    none, first, second, _ = (row.gain for row in weak.measured)
    assert none is None
    assert first.text(".3f") == weak.measured[1].speedup.text(".3f")
    assert second.value == pytest.approx(2 * 0.91 / 0.95, rel=0.005)
    assert second.low < second.value < second.high
    assert [row.step for row in weak.measured[1:]] == [2.0, 2.0, 2.0]


def test_the_planned_size_stands_beside_the_measured_one(results):
    assert new_proposal(results, to=(16,)).planned == (
        "Size of the planned jobs: 16 nodes (up to 2 times as many); the largest measured: 8."
    )
    assert f"{BLANK} (TO=16,32: on so many nodes); the largest measured: 8" in new_proposal(results).planned


def test_what_was_not_measured_is_marked_as_predicted_and_supports_nothing(results):
    (weak,) = new_proposal(results, to=(4, 16)).curves_in("weak")
    assert [row.nodes for row in weak.rows if row.predicted] == [16]
    assert weak.rows[-1].efficiency.variation == "between machines"
    assert weak.supported == 8


def test_two_points_are_continued_and_one_host_has_no_network(tmp_path):
    steps = [0.5 + 0.001 * number for number in range(12)]
    save(make_rounds([(step, step / 0.9) for step in steps], [Arm(1), Arm(2)]), tmp_path)
    content = new_proposal(tmp_path)
    predicted = [(row.nodes, row.speedup.value) for row in content.curves[0].rows if row.predicted]
    assert predicted == [(4, pytest.approx(1.8**2)), (8, pytest.approx(1.8**3))]
    assert content.caveats == ["Nodes are cores of 1 host: no network between hosts was measured."]


def test_points_that_shared_cores_support_nothing(tmp_path):
    save(replace(make_rounds([(0.5, 0.55)] * 12, [Arm(1), Arm(2)]), cores_shared=True), tmp_path)
    (curve,) = new_proposal(tmp_path).curves
    assert curve.supported is None
    assert "no number of nodes is supported" in proposal.sentence(curve, 0.75)


def test_emulated_nodes_are_no_cluster(tmp_path):
    long_curve(tmp_path, "weak_scaling", (1, 0.95, 0.91, 0.88), **QUOTA)
    assert new_proposal(tmp_path).caveats[0].startswith("Nodes are emulated on one machine by CPU quotas: no network")


def test_without_a_curve_it_says_what_there_is(results):
    with pytest.raises(TableError, match=r"records of overhead .*strong_scaling, weak_scaling"):
        new_proposal(results, experiments=("overhead",))
