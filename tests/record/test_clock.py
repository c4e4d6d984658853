"""Numbers of a user's program beside the running times of its launches."""

import pytest

from record import clock
from record.schema import CoreUse, PrintedRate, ProgramFacts, Rank
from tests.helpers.bare_record import bare_record


def launch(ranks, value, running_s, printed_unit="img/s", number="", **program):
    """Return a launch of this many ranks on as many cores, one of which it used."""
    batch = {"global_batch": program.pop("global_batch")} if "global_batch" in program else {}
    record = bare_record(
        point=f"nodes{ranks}",
        config={"program": {"command": "run {ranks}", "time": "t {time}"} | program} | batch,
        swept={"nodes": ranks, "ranks_per_node": ranks},
        ranks=[Rank(i, i, i, "n", [i], None, {"timed": running_s}, [], [], 0) for i in range(ranks)],
        printed=PrintedRate(value, f"line of {ranks}", "TIME", printed_unit, number=number),
        program=ProgramFacts(["run"], {}, "", [], 0, CoreUse(running_s, running_s, running_s, 0.0)),
    )
    return clock.program_launch(record)


def doubt(*launches):
    return "\n".join(line for lines in clock.doubts(launches).values() for line in lines)


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        # "real 1m13.70s" read as 13.7 s, then 39.2 s: 13.7 / 39.2 = 0.349; 73.9 s / 39.4 s = 1.88
        ((1 / 13.7, 73.9), (1 / 39.2, 39.4), "nodes2 over nodes1: 0.349x by the number, 1.88x by the running time"),
        ((4.0, 10.0), (2.1, 5.2), "0.525x by the number, 1.92x by the running time"),  # days/ns taken as a rate
        ((4.0, 10.0), (10.4, 8.0), "2.6x by the number, 1.25x by the running time"),  # the same direction, twice as far
        (
            (40960.0, 10.0),
            (38220.0, 5.6),
            "0.933x by the number, 1.79x by the running time; if it is that of one rank, 1.87x",
        ),
        ((30.0, 10.0), (30.0, 6.0), "it is the same number at all sizes"),  # an option that the program echoes
        ((1.0, 10.0), (2.0, 6.0), "it is the same multiple of the ranks at all sizes"),  # the number of ranks
        ((800.0, 10.0, ""), (1.46, 6.0, "GiB/s"), "its unit differs between sizes: none, GiB/s"),
        ((10.0, 10.0), (12.0, 11.765), "1.2x by the number, 0.85x by the running time"),  # the least contradiction
    ],
)
def test_a_number_that_the_running_times_contradict_is_in_doubt(first, second, reason):
    launches = [launch(1, *first, scaling="strong"), launch(2, *second, scaling="strong")]
    text = doubt(*launches)
    assert reason in text
    assert f"ARGS=program.confirmed={launches[0].code}" in text
    confirmed = {"scaling": "strong", "confirmed": launches[0].code}
    assert not doubt(launch(1, *first, **confirmed), launch(2, *second, **confirmed))
    for key in ("rate", "time", "time_of", "unit", "pick", "skip", "decimal", "each_rank"):
        another = confirmed | {key: "1"}  # it was not this reading that was confirmed
        assert doubt(launch(1, *first, **another), launch(2, *second, **another))


@pytest.mark.parametrize(
    ("first", "second", "program"),
    [
        ((10.0, 10.0), (18.0, 6.0), {"scaling": "strong"}),  # 1.8 by the number, 1.67 by the clock
        ((10.0, 10.0), (9.5, 9.8), {"scaling": "strong"}),  # neither has a direction
        ((10.0, 10.0), (12.0, 10.5), {"scaling": "strong"}),  # one of them has none: 1.2 and 0.952
        ((10.0, 10.0), (9.5, 8.0), {"scaling": "strong"}),  # 0.95 and 1.25, nearer than 1.9 of one rank
        ((4.0, 10.0), (5.0, 4.0), {"scaling": "strong"}),  # just within twice: 1.25 and 2.5
        ((4.0, 10.0), (10.0, 8.0), {"scaling": "strong"}),  # 2.5 and 1.25
        ((10.0, 10.0), (19.0, 10.5), {"scaling": "weak"}),  # 1.9; two ranks have twice the work
        ((10.0, 10.0), (19.0, 10.5), {"global_batch": 0}),  # as many steps of a doubled batch
        ((10.0, 30.0), (38.0, 9.0), {"global_batch": 0}),  # 3.8 or 6.7: as many images
    ],
)
def test_a_number_that_the_running_times_confirm_is_not(first, second, program):
    works = [{"global_batch": 8 * ranks} if "global_batch" in program else {} for ranks in (1, 2)]
    assert not doubt(launch(1, *first, **program | works[0]), launch(2, *second, **program | works[1]))


def test_one_size_and_other_programs_are_not_compared():
    assert not doubt(launch(1, 5.0, 10.0))
    assert not doubt(launch(1, 5.0, 10.0), launch(2, 5.0, 1.0, command="another {ranks}"))
    assert clock.program_launch(bare_record()) is None
    assert launch(1, 0.0, 10.0) is launch(1, 5.0, 0.0) is None


def test_a_number_moves_with_the_clock_if_it_differs_between_sizes_in_the_direction_of_running_times():
    one = launch(1, 4.0, 10.0)
    assert clock.moves_with_the_clock([one, launch(2, 10.4, 8.0)])
    assert not clock.moves_with_the_clock([one, launch(2, 2.1, 5.2)])
    assert not clock.moves_with_the_clock([one, launch(2, 8.0, 6.0)])  # the ranks
    assert not clock.moves_with_the_clock([one])


def test_a_launch_says_what_was_read_and_how_many_cores_it_used():
    text = "nodes2: 13.7 s in 'line of 2'; it ran 73.9 s, used 1.0 of 2 cores"
    assert launch(2, 1 / 13.7, 73.9, number="13.7 s").text() == text
    uncounted = bare_record(config={"program": {"command": "run"}}, printed=PrintedRate(4.0, "rate 4", "RATE"))
    assert clock.program_launch(uncounted).text() == "tiny-nodes1: 4 in 'rate 4'; it ran 5 s"
