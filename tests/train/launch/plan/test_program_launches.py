import pytest

from record import record_summary
from record import run_files as files
from record.run_files import write_file
from record.schema import RECORD_NAME, CoreUse, PrintedRate, ProgramFacts, Rank, dumps
from tests.helpers.bare_record import bare_record
from tests.helpers.launch_plans import plan_points
from train.config.identity import config_hash, resolved
from train.launch.plan import program_launches
from train.launch.plan.planned_runs import Run
from train.launch.plan.queue import Queue


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
        record.summary = record_summary.record_summary(record)
        folder, _ = files.new_run(run.home, run.repeat)
        write_file(folder / RECORD_NAME, dumps(record))


def test_a_program_is_launched_until_its_speedups_are_precise(program):
    assert program_launches.next_launches(program) == []  # the planned ones come first
    add_printed(program, {1: [10.0] * 6, 2: [18.0] * 6})
    assert program_launches.next_launches(program) == []
    assert program_launches.shortfall(program) is None
    assert program_launches.result(program) == "nodes2 1.8x (1.8 to 1.8)"


def test_a_failed_launch_does_not_shift_the_pairs_of_a_program(program):
    """The machine is slower at each repeat; the first launch on two nodes failed."""
    rates = {1: [20.0, 10.0, 5.0, 4.0, 2.5, 1.0], 2: [36.0, 18.0, 9.0, 7.2, 4.5, 1.8]}
    add_printed([run for run in program if (run.point.config.nodes, run.repeat) != (2, 0)], rates)
    [speedup] = program_launches.speedups(program_launches._program_points(program)).values()
    assert (speedup.value, speedup.n) == (pytest.approx(1.8), 5)


def test_an_efficiency_above_1_is_doubted_and_the_use_by_others_is_reported(program):
    used = CoreUse(wall_s=10.0, own_s=8.0, busy_s=12.0, steal_s=0.0)
    facts = ProgramFacts(["run"], {}, "", [], 0, used)
    add_printed(program, {1: [10.0] * 6, 2: [31.0] * 6}, program=facts)
    _, doubt, others = program_launches.result(program).split("; ", 2)
    assert doubt.startswith("warning: the efficiency of nodes2 is above 1 in its whole interval")
    assert others.endswith("others took 40 % of a core meanwhile")


def test_a_programs_number_is_in_doubt_when_each_size_was_launched(program):
    doubted = {1: [10.0] * 6, 2: [50.0] * 6}  # each launch took 1 s
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


def test_a_program_that_scatters_is_launched_again_until_the_budget_ends(program):
    noisy = {1: [10.0] * 6, 2: [12.0, 19.0, 13.0, 18.0, 12.5, 18.5]}
    add_printed(program, noisy)
    more = program_launches.next_launches(program)
    assert {(run.point.name, run.repeat) for run in more} == {("nodes1", 6), ("nodes2", 6)}
    queue = Queue(program, force=False)
    assert (queue.runs, queue.curve_result(program[0])) == (more, "")  # until the last launch
    add_printed(more, noisy, job_s=54.5)
    ended = Queue(program, force=False)
    assert (ended.runs, ended.curve_result(program[0])) == ([], program_launches.result(program))  # 121 s of 100
    [short] = ended.shortfalls()
    assert short.text.startswith("nodes2: ± ")
    assert ended.sufficient_s([]) == 180  # whole minutes


def test_no_size_of_a_program_is_launched_again_after_it_failed(program):
    queue = Queue(program, force=False)
    queue.add(program[0], None, "it failed")
    why = "an earlier launch of it failed, and another would fail alike"
    assert [queue.skip_reason(run) for run in program[2:4]] == [why, ""]
