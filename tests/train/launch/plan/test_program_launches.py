import pytest

from tests.helpers.bare_record import bare_record
from tests.helpers.launches import points_of
from train.config.identity import config_hash, resolved
from train.launch.plan import launches
from train.launch.plan.runs import Run
from train.record import paths
from train.record.files import write_once
from train.record.record import RECORD_NAME, PrintedRate, Rank, dumps

PROGRAM = ["experiment=scaling", "nodes=2", "program.command='run {ranks}'", "measure.budget_s=100"]


@pytest.fixture
def program(tmp_path):
    """The runs of a program on one and two nodes, six launches of each."""
    points = points_of(*PROGRAM, f"results={tmp_path}", cores=2)
    return [Run(point, repeat) for repeat in range(6) for point in points]


def rank(number):
    return Rank(number, number, number, "n", [number], None, {"timed": 1.0}, [], [], 0)


def add_printed(runs, rates, job_s=1.0):
    """The records of launches that printed these rates, by the number of nodes."""
    for run in runs:
        config = run.point.config
        record = bare_record(
            config=resolved(config), config_hash=config_hash(config), ranks=[*map(rank, range(config.ranks))],
            repeat=run.repeat, job_s=job_s, printed=PrintedRate(rates[config.nodes][run.repeat % 6], "", "RATE"),
        )  # fmt: skip
        folder, _ = paths.new_run(run.home, run.repeat)
        write_once(folder / RECORD_NAME, dumps(record))


STEADY, NOISY = {1: [10.0] * 6, 2: [18.0] * 6}, {1: [10.0] * 6, 2: [12.0, 19.0, 13.0, 18.0, 12.5, 18.5]}


def test_a_program_is_launched_until_its_speedups_are_precise(program):
    assert launches.more_program_launches(program) == []  # the planned ones come first
    add_printed(program, STEADY)
    assert launches.more_program_launches(program) == []
    assert launches.program_result(program) == "nodes2 1.8x (1.8 to 1.8)"


def test_a_program_that_scatters_is_launched_again_until_the_budget_ends(program):
    add_printed(program, NOISY)
    more = launches.more_program_launches(program)
    assert {(run.point.name, run.repeat) for run in more} == {("nodes1", 6), ("nodes2", 6)}
    add_printed(more, NOISY, job_s=60.0)
    assert launches.more_program_launches(program) == []  # 132 s of 100


def test_runs_of_the_kit_itself_need_no_such_launches(tmp_path):
    runs = [Run(point, 0) for point in points_of("experiment=weak_scaling", f"results={tmp_path}", cores=2)]
    assert launches.more_program_launches(runs) == []
    assert launches.program_result(runs) == ""
