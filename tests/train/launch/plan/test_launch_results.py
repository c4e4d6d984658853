import math
from dataclasses import replace

import numpy as np
import pytest

from common.number import Number
from record import rounds, summary
from record import run_files as files
from record.run_files import write_once
from record.schema import RECORD_NAME, CoreUse, PrintedRate, ProgramFacts, Rank, dumps
from tests.helpers.bare_record import bare_record
from tests.helpers.configs import with_values
from tests.helpers.launched_curves import add, curve
from tests.helpers.launches import plan_points
from tests.helpers.run_records import make_record, update_derived
from train.config.identity import config_hash, resolved
from train.launch.plan import launch_results
from train.launch.plan.planned_runs import Run


@pytest.fixture
def add_launches(tmp_path):
    """Return the records of launches with these speedups, each with two rounds just below and two just above it."""
    point = curve(tmp_path)
    return lambda *speedups, first=0: [
        add(point, repeat, [speedup * factor for factor in (0.99, 0.995, 1.005, 1.01)])
        for repeat, speedup in enumerate(speedups, first)
    ]


def test_launches_that_agree_are_precise(tmp_path, add_launches):
    records = add_launches(*[1.6] * 3)
    result = rounds.speedups(records)
    assert set(result) == {"nodes2-batch_per_rank1", "nodes2-batch_per_rank1-without-allreduce"}
    two_nodes = result["nodes2-batch_per_rank1"]
    assert two_nodes.value == pytest.approx(1.6, rel=1e-4)
    assert (two_nodes.n, two_nodes.variation) == (12, "between launches")
    assert launch_results.is_precise(result, 0.05)
    assert not launch_results.is_precise(result, 0.01)
    assert launch_results.shortfall(Run(curve(tmp_path), 2), records) is None  # the goal is reached
    assert not launch_results.is_precise(rounds.speedups(records[:1]), 0.5)  # it does not show how launches differ


def test_a_result_has_an_interval_from_two_launches_on(tmp_path, add_launches):
    run = Run(curve(tmp_path), 0)
    assert launch_results.result(run, add_launches(1.5)) == (
        "tiny-rounds, 1 launch: 2 nodes 1.5x, 2 nodes without-allreduce 1.5x"
    )
    two = launch_results.result(run, add_launches(1.5, 1.7, first=1))
    assert two.startswith("tiny-rounds, 2 launches: 2 nodes 1.6x (1")
    assert two.endswith(" between launches)")


def test_ratios_of_different_widths_are_named(tmp_path, add_launches, monkeypatch):
    records = add_launches(1.5, 1.5, 1.5)
    halves = dict(zip(rounds.speedups(records), (0.06, 0.2), strict=True))
    measured = {
        name: Number(1.5, lambda _, half=half: (1.5 - 1.5 * half, 1.5 + 1.5 * half), 12, "between launches")
        for name, half in halves.items()
    }
    monkeypatch.setattr(rounds, "point_speedups", lambda _: measured)
    text = launch_results.shortfall(Run(curve(tmp_path), 0), records).text
    assert text == "tiny-rounds: 2 nodes ± 6 %, 2 nodes without-allreduce ± 20 %, asked for ± 5 %"


def test_a_curve_that_is_not_precise_says_how_wide_it_is_why_and_how_much_longer_it_takes(tmp_path, add_launches):
    run = Run(curve(tmp_path), 0)
    few = launch_results.shortfall(run, [add(run.point, 0, [1.6], job_s=30.0)])
    assert few == launch_results.Shortfall(
        "tiny-rounds: no interval, asked for ± 5 %",
        ["an interval needs 6 rounds; measured: 1", "3 launches show how launches differ; measured: 1"],
        60.0,
    )
    assert few.lines()[0] == "tiny-rounds: no interval, asked for ± 5 %; about 60 s more would be enough"
    records = add_launches(1.4, 1.6, 1.8, first=1)
    [worst] = {i.half_width_fraction() for i in rounds.speedups(records).values()}
    wide = launch_results.shortfall(run, records)
    assert wide.text == f"tiny-rounds: ± {100 * worst:.2g} %, asked for ± 5 %"
    assert wide.reasons == ["launches differ by more than their rounds explain"]
    assert wide.more_s == 30.0 * math.ceil(3 * (worst / 0.05) ** 2 - 3)  # an interval narrows with the root of launches


def test_the_cause_that_is_named_is_the_one_that_widens_the_interval(tmp_path):
    run = Run(curve(tmp_path), 0)
    # Distances of 2 x 0.2 on the logarithm in each launch, over sqrt(4 3), times sqrt(pi / 2): 0.145.
    scattered = [math.exp(x) for x in (0.0, 0.0, 0.2, -0.2)]
    records = [add(run.point, repeat, scattered) for repeat in range(3)]
    assert launch_results.shortfall(run, records).reasons == ["the ratios of single rounds scatter by 14 %"]
    disturb(records[0], 1)  # one round of twelve is no cause
    [reason] = launch_results.shortfall(run, records).reasons
    assert reason.startswith("the ratios of single rounds scatter by ")
    for record in records:
        disturb(record, 2)
    [others] = launch_results.shortfall(run, records).reasons
    assert others == "6 of 12 rounds left out: others took 44 % of a core"  # without a tick of 0.01 s


def disturb(record, count):
    """Let others take 44 % of a core in the first rounds."""
    for window in record.ranks[1].windows:
        if window.round < count:
            window.cores = CoreUse(wall_s=1.0, own_s=0.5, busy_s=0.9, steal_s=0.05)


@pytest.fixture
def program(tmp_path):
    """The runs of a program on one and two nodes, six launches of each."""
    command = "program.command='run {ranks} {batch_per_rank}'"
    overrides = ("experiment=scaling", "nodes=2", command, "measure.budget_s=100", f"results={tmp_path}")
    points = plan_points(*overrides, cores=2)
    return [Run(point, repeat) for repeat in range(6) for point in points]


def add_printed(runs, rates, job_s=1.0, program=None):
    """The records of launches that printed these rates, by the number of nodes."""
    for run in runs:
        config = run.point.config
        record = bare_record(
            config=resolved(config),
            config_hash=config_hash(config),
            ranks=[Rank(i, i, i, "n", [i], None, {"timed": 1.0}, [], [], 0) for i in range(config.ranks)],
            repeat=run.repeat,
            job_s=job_s,
            printed=PrintedRate(rates[config.nodes][run.repeat % 6], "", "RATE"),
            program=program,
        )
        record.summary = summary.record_summary(record)
        folder, _ = files.new_run(run.home, run.repeat)
        write_once(folder / RECORD_NAME, dumps(record))


def test_a_program_is_launched_until_its_speedups_are_precise(program):
    assert launch_results.more_program_launches(program) == []  # the planned ones come first
    add_printed(program, {1: [10.0] * 6, 2: [18.0] * 6})
    assert launch_results.more_program_launches(program) == []
    assert launch_results.program_shortfall(program) is None
    assert launch_results.program_result(program) == "nodes2 1.8x (1.8 to 1.8)"


def test_a_failed_launch_does_not_shift_the_pairs_of_a_program(program):
    """The machine is slower at each repeat; the first launch on two nodes failed."""
    rates = {1: [20.0, 10.0, 5.0, 4.0, 2.5, 1.0], 2: [36.0, 18.0, 9.0, 7.2, 4.5, 1.8]}
    add_printed([run for run in program if (run.point.config.nodes, run.repeat) != (2, 0)], rates)
    [speedup] = launch_results.program_speedups(launch_results._program_points(program)).values()
    assert (speedup.value, speedup.n) == (pytest.approx(1.8), 5)


def test_an_efficiency_above_1_is_doubted_and_the_use_by_others_is_reported(program):
    used = CoreUse(wall_s=10.0, own_s=8.0, busy_s=12.0, steal_s=0.0)
    facts = ProgramFacts(["run"], {}, "", [], 0, used)
    add_printed(program, {1: [10.0] * 6, 2: [31.0] * 6}, program=facts)
    _, doubt, others = launch_results.program_result(program).split("; ", 2)
    assert doubt.startswith("warning: the efficiency of nodes2 is above 1 in its whole interval")
    assert others.endswith("others took 40 % of a core meanwhile")


def test_a_programs_number_is_in_doubt_when_each_size_was_launched(program):
    doubted = {1: [10.0] * 6, 2: [50.0] * 6}  # each launch took 1 s
    add_printed(program[:1], doubted)
    assert launch_results.program_doubts(program) == []
    add_printed(program[1:2], doubted)
    assert ": 5x by the number, 2x by the running time" in "".join(launch_results.program_doubts(program))


def test_a_program_that_scatters_is_launched_again_until_the_budget_ends(program):
    noisy = {1: [10.0] * 6, 2: [12.0, 19.0, 13.0, 18.0, 12.5, 18.5]}
    add_printed(program, noisy)
    more = launch_results.more_program_launches(program)
    assert {(run.point.name, run.repeat) for run in more} == {("nodes1", 6), ("nodes2", 6)}
    assert launch_results.program_shortfall(program).text.endswith(" %, asked for ± 5 %")
    add_printed(more, noisy, job_s=60.0)
    assert launch_results.more_program_launches(program) == []  # 132 s of 100


def rates(count, **arms):
    """Images/s of each arm, times a drift of the machine that all share and a scatter of 1 %."""
    scatter = np.random.default_rng(0).lognormal(0, 0.01, (len(arms), count))
    drift = [1.0, 1.5, 0.7, 1.2, 0.9, 1.1][:count]
    return {
        name: {repeat: rate * drift[repeat] * scatter[nth, repeat] for repeat in range(count)}
        for nth, (name, rate) in enumerate(arms.items())
    }


def test_a_significantly_slower_arm_is_dropped_whatever_the_machine_does_meanwhile():
    result = launch_results.slower_arms(rates(3, base=10.0, fast=10.2, slow=7.0))
    assert result == {"slow": pytest.approx(1 - 7 / 10.2, abs=0.03)}


def test_two_launches_drop_no_arm_nor_do_three_launches_of_two_arms():
    assert launch_results.slower_arms(rates(2, base=10.0, fast=10.2, slow=7.0)) == {}
    assert launch_results.slower_arms(rates(3, base=10.0, slow=7.0)) == {}
    assert launch_results.slower_arms(rates(5, base=10.0, slow=7.0)) != {}
    assert launch_results.slower_arms({}) == {}


def test_no_equal_arm_is_dropped_in_most_contests():
    """Compare ten equal arms after each of 3 to 10 launches. Every tenth launch takes a third longer."""
    random, contests, wrong = np.random.default_rng(1), 150, 0
    for _ in range(contests):
        times = random.lognormal(0, 0.05, (10, 10)) * np.where(random.random((10, 10)) < 0.1, 1.33, 1.0)
        stages = ({str(arm): dict(enumerate(1 / s[:n])) for arm, s in enumerate(times)} for n in range(3, 11))
        wrong += any(launch_results.slower_arms(stage) for stage in stages)
    assert wrong / contests <= 0.05


@pytest.fixture
def runs(tmp_path):
    """The runs of a contest of three arms, with records of three repeats; the third arm takes twice as long."""
    points = plan_points("experiment=tune", "model=tiny", "nodes=2", "measure.repeats=6", f"results={tmp_path}")
    arms = {"as-configured": 1.0, "gradients-grouped": 0.99, "gradients-separate": 2.0}
    runs = [Run(point, repeat) for repeat in range(6) for point in points if point.arm in arms]
    scatter = np.random.default_rng(0).uniform(0.99, 1.01, len(runs))
    for run, factor in zip(runs[:9], scatter, strict=False):
        record = update_derived(make_record(nodes=2, step_s=arms[run.point.arm] * factor, repeat=run.repeat))
        write_once(run.home / f"r{run.repeat}" / RECORD_NAME, dumps(record))
    return runs


def test_the_slower_arm_is_launched_no_more(runs):
    assert {run.point.arm: launch_results.slower_by(run, runs) for run in runs[9:12]} == {
        "as-configured": None,
        "gradients-grouped": None,
        "gradients-separate": pytest.approx(0.5, abs=0.05),
    }


@pytest.mark.parametrize("change", ["it is the base", "without a contest"])
def test_the_arm_that_the_others_are_compared_with_and_one_without_a_contest_are_never_dropped(runs, change):
    def changed_point(point):
        if change == "without a contest":
            return replace(point, config=with_values(point.config, {"measure.compete": False}))
        return replace(point, role="base") if point.arm == "gradients-separate" else point

    runs = [replace(run, point=changed_point(run.point)) for run in runs]
    assert {launch_results.slower_by(run, runs) for run in runs} == {None}
