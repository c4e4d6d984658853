from dataclasses import replace

import pytest

from record import record_summary
from record import run_files as files
from record.run_files import write_file
from record.schema import RECORD_NAME, CoreUse, PrintedRate, ProgramFacts, Rank, dumps
from tests.helpers.bare_record import bare_record
from tests.helpers.launch_plans import plan_points
from train.config.identity import config_hash, resolved
from train.launch.plan import program_launches
from train.launch.plan.launch_results import Shortfall
from train.launch.plan.planned_runs import Run
from train.launch.plan.queue import Queue


@pytest.fixture
def program(tmp_path):
    """The runs of a program on two and four nodes, six launches of each."""
    command = "program.command='run {ranks} {batch_per_rank}'"
    overrides = ("experiment=scaling", "nodes=2,4", command, "measure.budget_s=100", f"results={tmp_path}")
    points = plan_points(*overrides, cores=4)
    return [Run(point, repeat) for repeat in range(6) for point in points]


def add_printed(runs, rates, job_s=1.0, program=None):
    """The records of launches that printed these rates, by the number of nodes."""
    for run in runs:
        config = run.point.config
        record = bare_record(
            config=resolved(config),
            config_hash=config_hash(config),
            point=run.point.name,
            ranks=[Rank(i, i, i, "n", [i], None, {"timed": 1.0}, [], [], 0) for i in range(config.ranks)],
            repeat=run.repeat,
            job_s=job_s,
            printed=PrintedRate(rates[config.nodes][run.repeat % 6], "", "RATE"),
            program=program,
        )
        record.summary = record_summary.record_summary(record)
        folder, _ = files.new_run(run.home, run.repeat)
        write_file(folder / RECORD_NAME, dumps(record))


def test_a_failed_launch_does_not_shift_the_pairs_of_a_program(program):
    """The machine is slower at each repeat; the first launch on four nodes failed."""
    rates = {2: [20.0, 10.0, 5.0, 4.0, 2.5, 1.0], 4: [36.0, 18.0, 9.0, 7.2, 4.5, 1.8]}
    add_printed([run for run in program if (run.point.config.nodes, run.repeat) != (4, 0)], rates)
    for key, speedups in (("nodes", 1), ("ranks_per_node", 1), ("batch_per_rank", 0)):  # 0: each is another series
        points = (replace(run.point, swept={key: run.point.config.nodes}) for run in program)
        runs = [Run(point, run.repeat) for point, run in zip(points, program, strict=True)]
        measured = program_launches.speedups(program_launches._program_points(runs)).values()
        assert [(round(speedup.value, 9), speedup.n) for speedup in measured] == [(1.8, 5)] * speedups
    assert program_launches.next_launches(program) == []
    why = "only 5 of 6 launches of each size that an interval needs"
    assert program_launches.shortfall(program) == Shortfall("nodes4: no interval", [why], 1.0)
    assert program_launches.result(program) == "nodes4 too few launches for an interval"


def test_an_efficiency_above_1_is_doubted_and_the_use_by_others_is_reported(program):
    rates = {2: [10.0] * 6, 4: [31.0] * 6}
    add_printed(program[:-2], rates)
    for run, busy_s in zip(program[-2:], (6.5, 7.5), strict=True):
        used = CoreUse(wall_s=10.0, own_s=8.0, busy_s=busy_s, steal_s=1.0)
        add_printed([run], rates, program=ProgramFacts(["run"], {}, "", [], 0, used))
    speedup, doubt, check, *uses = program_launches.result(program).split("; ")
    assert speedup == "nodes4 3.1x (3.1 to 3.1)"
    assert doubt == "warning: the efficiency of nodes4 is above 1 in its whole interval"
    assert check.startswith("check that each size does the work that program.scaling says")
    cores = ["nodes2 used 0.8 of 2 cores", "nodes4 used 0.8 of 4 cores"]  # in their last launches
    assert uses == [*cores, "others took 0 to 5 % of a core meanwhile"]


def test_a_programs_number_is_in_doubt_when_each_size_was_launched(program):
    doubted = {2: [10.0] * 6, 4: [50.0] * 6}  # each launch took 1 s
    add_printed(program[:1], doubted)
    assert program_launches.doubts(program) == []
    assert [*Queue(program, force=True)] == program
    alone = Queue(program[:1], force=False)
    assert (alone.shortfalls(), alone.precision_fraction) == ([], 0.05)
    add_printed(program[1:2], doubted)
    assert ": 5x by the number, 2x by the running time" in "".join(program_launches.doubts(program))
    assert [*Queue(program, force=False)] == []  # no more are made, but for one of each size that is forced
    assert [*Queue(program, force=True)] == program[:2]
    ended = Queue(program[:2], force=False)
    assert (ended.curve_result(program[0]), ended.shortfalls()) == ("", [])


NOISY = {2: [10.0] * 6, 4: [12.0, 19.0, 13.0, 18.0, 12.5, 18.5]}


def test_a_program_that_scatters_is_launched_again_until_the_budget_ends(program):
    add_printed(program, NOISY)
    more = program_launches.next_launches(program)
    assert {(run.point.name, run.repeat) for run in more} == {("nodes2", 6), ("nodes4", 6)}
    queue = Queue(program, force=False)
    assert (queue.runs, queue.curve_result(program[0])) == (more, "")  # until the last launch
    add_printed(more, NOISY, job_s=54.5)
    ended = Queue(program, force=False)
    assert (ended.runs, ended.curve_result(program[0])) == ([], program_launches.result(program))  # 121 s of 100
    [short] = ended.shortfalls()
    assert (short.text.startswith("nodes4: ± "), short.reasons) == (True, [])
    assert ended.sufficient_s([]) == 180  # whole minutes


def test_another_launch_of_each_size_is_made_if_it_fits_into_the_budget(program):
    add_printed(program, NOISY)
    first, second = program_launches.next_launches(program)
    add_printed([first], NOISY, job_s=37.75)
    assert program_launches.next_launches(program) == []  # the second comes first
    add_printed([second], NOISY, job_s=37.75)
    more = program_launches.next_launches(program)  # each size took 43.75 s, and 6.25 s a launch: 100 in all
    assert {(run.point.name, run.repeat) for run in more} == {("nodes2", 7), ("nodes4", 7)}
    add_printed(more, NOISY)
    assert program_launches.next_launches(program) == []


def test_no_size_of_a_program_is_launched_again_after_it_failed(program):
    queue = Queue(program, force=False)
    queue.add(program[0], None, "it failed")
    why = "an earlier launch of it failed, and another would fail alike"
    assert [queue.skip_reason(run) for run in program[2:4]] == [why, ""]
