from analysis.history import sessions
from analysis.study import Study, record_files
from tests.helpers.own_records import make_record, save
from tests.helpers.own_studies import month
from train.record.record import HostState


def found(folder):
    study = Study(*record_files(folder), every_generation=True)
    (of_machine,) = sessions.sessions(study.local, study.records).values()
    return of_machine


def test_a_session_begins_where_a_launch_is_repeated(tmp_path):
    month(tmp_path, 0)
    month(tmp_path, 1)
    first, second = found(tmp_path)
    assert [len(one.launches) for one in (first, second)] == [6, 6]
    assert (first.days, second.days) == ("2026-01-03", "2026-02-03")
    assert set(second.table["generation"]) == {1}


def test_launches_that_are_added_belong_to_the_same_session(tmp_path):
    month(tmp_path, 0, launches=2)
    run = make_record(nodes=1, repeat=2)
    run.started_at = "2026-01-05T08:00:00Z"
    run.environment.git_commit = "a" * 40
    save(run, tmp_path)
    (one,) = found(tmp_path)
    assert (len(one.launches), one.days) == (5, "2026-01-03 to 2026-01-05")


def test_a_session_with_more_launches_than_the_one_before_is_one(tmp_path):
    month(tmp_path, 0, launches=2)
    month(tmp_path, 1, launches=4)
    assert [len(one.launches) for one in found(tmp_path)] == [4, 8]


def test_another_commit_begins_a_session_and_is_named(tmp_path):
    month(tmp_path, 0, launches=1)
    month(tmp_path / "2026-02", 1, launches=1, nodes=[2], commit="b" * 40)
    run = make_record(nodes=1, repeat=5)
    run.started_at = "2026-03-01T08:00:00Z"
    run.environment.git_commit, run.environment.versions = "b" * 40, {"tensorflow": "2.19.0"}
    save(run, tmp_path)
    made = found(tmp_path)
    assert [one.provenance.commit for one in made] == ["aaaaaaa", "bbbbbbb", "bbbbbbb"]
    assert ("environment.versions.tensorflow", "2.18.1", "2.19.0") in sessions.changed(made[1], made[2])


def test_what_was_measured_of_a_host_is_no_change_and_how_it_was_set_is_one(tmp_path):
    for generation, (load, steal_fraction, governor) in enumerate(
        [(0.1, 0.002, "powersave"), (0.4, 0.003, "performance")]
    ):
        run = make_record(generation=generation)
        run.started_at = f"2026-0{generation + 1}-03T08:00:00Z"
        state = HostState(governor, 800.0 + load, 3500.0, True, 1, "madvise", load, ["avx2"], [], None, steal_fraction)
        run.environment.hosts[0].state = state
        save(run, tmp_path)
    assert sessions.changed(*found(tmp_path)) == [("environment.hosts.state.governor", "powersave", "performance")]


def test_a_tree_that_was_not_clean_is_marked():
    run = make_record()
    run.environment.git_dirty = True
    assert sessions.provenance(run).commit == "0000000+"


def test_machines_have_their_own_sessions(tmp_path):
    month(tmp_path, 0, launches=1)
    run = make_record()
    run.environment.hosts[0].cpu_model = "another"
    save(run, tmp_path / "other")
    study = Study(*record_files(tmp_path), every_generation=True)
    assert [len(of) for of in sessions.sessions(study.local, study.records).values()] == [1, 1]


def test_older_sessions_can_be_left_out(tmp_path):
    month(tmp_path, 0, launches=1)
    month(tmp_path, 1, launches=1)
    assert [one.number for one in sessions.since(found(tmp_path), "2026-02-01")] == [2]
