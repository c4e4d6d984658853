import numpy as np
import pytest

from analysis.diagnose.paired_windows import ArmKey, curves, launch_of_rounds
from analysis.diagnose.split import splits
from analysis.study import Study
from record.schema import CoreUse, Failure, Window
from tests.helpers.run_records import QUOTA, READING, make_program, make_record, make_rounds, save
from tests.helpers.studies import curve_in_rounds, strategies

ONE, TWO = ArmKey(1, 8), ArmKey(2, 8)
CONTROL = ArmKey(2, 8, "control")


def read(folder):
    """The curves over nodes in a folder of records."""
    study = Study(folder)
    return curves(study.local, study.records)


def test_the_rounds_of_each_launch_are_turns(tmp_path):
    curve_in_rounds(tmp_path)
    [result] = read(tmp_path)
    assert (result.model, result.in_rounds, len(result.launches), len(result.records)) == ("resnet50", True, 2, 2)
    assert [len(launch.paired_windows) for launch in result.launches] == [6, 6]
    assert result.points == [ONE, TWO]
    first = result.launches[0].paired_windows[0]
    assert set(first.arms) == {ONE, TWO, CONTROL}
    assert first.arms[TWO].steps_s == pytest.approx(np.full((2, 2), 2 * 0.5 / 1.5))
    assert first.arms[TWO].computing_s == pytest.approx(0.9 * first.arms[TWO].steps_s)
    assert first.arms[CONTROL].measured_s == pytest.approx(2 * 0.5 / 1.9)
    assert result.launches[0].locations == [("host0", [0]), ("host0", [1])]


def rounds_on_used_cores(**more):
    """Rounds in which each window lost 0.4 s to other processes and 0.02 s to the hypervisor."""
    run = make_rounds([(0.5, 0.6, 0.6)] * 6, **more)
    run.ranks[1].cores = [2, 3]
    for rank in run.ranks:
        for window in rank.windows:
            window.cores = CoreUse(wall_s=1.2, own_s=0.7, busy_s=1.1, steal_s=0.02, delay_s=0.4)
    return run


def control_times(run):
    return launch_of_rounds(run).paired_windows[0].arms[CONTROL]


def test_what_others_took_is_the_time_in_which_a_rank_was_ready_and_did_not_run():
    control = control_times(rounds_on_used_cores())
    # 0.4 s in two steps, on one core and on two; of the hypervisor 0.02 s
    assert control.taken_s == pytest.approx(np.array([[0.2, 0.1], [0.01, 0.005]]))
    assert control.preempted_s == pytest.approx([0.21, 0.105])


@pytest.mark.parametrize(("shared", "nodes"), [(True, {}), (False, QUOTA)], ids=["shared", "emulated"])
def test_preemption_is_not_known_where_ranks_share_cores(shared, nodes):
    run = rounds_on_used_cores(**nodes)
    run.cores_shared = shared
    assert control_times(run).preempted_s is None


def test_the_input_of_an_emulated_node_alone_is_its_step_less_that_of_its_control(tmp_path):
    """In memory 0.5 s alone and without allreduce, 0.6 s with it; 0.7 and 0.75 s with images."""
    save(make_rounds([(0.7, 0.5, 0.75, 0.6, 0.5)] * 6, READING, **QUOTA), tmp_path)
    [curve] = read(tmp_path)
    one, two = ({part: split.part(part).value for part in split.parts} for split in splits(curve))
    assert one == pytest.approx({"alone": 0.5, "input": 0.2, "rest": 0.0})
    # Gradients are ready after 0.9 of a step: 0.09 s after those without allreduce.
    assert two["alone"] == pytest.approx(0.5)
    assert (two["slower"], two["input"], sum(two.values())) == pytest.approx((0.0, 0.15, 0.75))


def test_exchanges_belong_to_the_round_and_take_as_long_as_on_the_rank_that_came_last():
    run = make_rounds([(0.5, 0.6, 0.6)] * 7, failure=Failure("killed", rank=1))
    run.ranks[1].windows.pop()  # so the last round is not finished and does not count
    for rank, (first_s, second_s) in zip(run.ranks, ((0.30, 0.20), (0.25, 0.22)), strict=True):
        rank.exchanges = [Window(number, 1, 1.0, [first_s, second_s + 0.01 * number]) for number in range(6)]
    exchanges_s = [paired.exchanges_s[2] for paired in launch_of_rounds(run).paired_windows]
    assert exchanges_s == pytest.approx([(0.25 + 0.20 + 0.01 * number) / 2 for number in range(6)])


def test_repeats_of_arms_in_launches_of_their_own_are_turns_that_begin_with_the_one_that_is_alone(tmp_path):
    strategies(tmp_path, servers=2)
    horovod, mwms, ps = read(tmp_path)
    assert (horovod.arm, mwms.arm, horovod.in_rounds) == ("horovod", "mwms", False)
    assert horovod.command == ["make", "strategies", f"RESULTS={tmp_path}", "MODELS=resnet50"]
    assert horovod.arms == mwms.arms != ""
    traits = [(curve.flat, curve.synchronous, curve.servers) for curve in (horovod, mwms, ps)]
    assert traits == [(True, True, ""), (False, True, ""), (True, False, "+2 cores for servers")]
    for curve, step_s, ready_s in ((horovod, 0.5, (0.42, 0.45)), (mwms, 0.7, (0.43, 0.46))):
        assert curve.points == [ONE, TWO]
        [launch] = curve.launches
        assert [paired.repeat for paired in launch.paired_windows] == [(0, repeat) for repeat in range(6)]
        arms = launch.paired_windows[1].arms
        assert (arms[ONE].measured_s, arms[TWO].measured_s) == pytest.approx((1.1 * 0.4, 1.1 * step_s))
        assert arms[TWO].computing_s[:, 0] == pytest.approx(1.1 * np.array(ready_s))


def test_the_command_of_a_program_names_neither_a_model_nor_a_dataset(tmp_path):
    for nodes in (1, 2):
        save(make_program(nodes, 100.0 * nodes), tmp_path)
    [result] = read(tmp_path)
    assert result.command == ["make", "scaling", f"RESULTS={tmp_path}"]


def test_one_rank_alone_is_a_separate_curve_where_nothing_begins_with_it(tmp_path):
    alone = {"distribution": {"backend": "none", "allreduce": False, "controller": "gloo"}}
    save(make_record("strategies", arm="one-rank-alone", arm_keys=["distribution"], **alone), tmp_path)
    [result] = read(tmp_path)
    assert result.points == [ONE]


def test_ranks_of_one_process_have_one_time_and_wait_for_nobody(tmp_path):
    # Alone 0.4 s, 0.3 s until the gradients; two in one process 0.7 s, 0.5 s until then: 0.2 slower, and 0.1 more.
    for backend, nodes, step_s, ready_s in (("none", 1, 0.4, 0.3), ("ps_cpu", 2, 0.7, 0.5)):
        exchange = {"backend": backend, "allreduce": nodes > 1, "controller": "gloo"}
        arm = {"arm": backend, "arm_keys": ["distribution", "nodes"], "distribution": exchange}
        run = make_record("strategies", nodes=nodes, step_s=step_s, **arm)
        for rank in run.ranks:
            rank.compute_times_s = [ready_s] * len(rank.step_times_s)
        save(run, tmp_path)
    [curve] = [curve for curve in read(tmp_path) if curve.arm == "ps_cpu"]
    assert (curve.synchronous, curve.waits) == (True, False)
    split = splits(curve)[-1]
    assert split.ranks == 2
    parts = {name: split.part(name).value for name in split.parts}
    assert parts == pytest.approx({"alone": 0.4, "slower": 0.2, "exchange": 0.1, "rest": 0.0})
