from record import protocol

NEARLY_PARTS = [
    *("rank-0.vm.11190 (copy).jsonl", "rank-0.vm.11190.sync-conflict-20261128-101010-ABCDEFG.jsonl", "rank-0.jsonl"),
    *("rank-0.vm (conflicted copy).11190.jsonl", "rank-0.vm.11190~.jsonl", "rank-0.vm.jsonl", "rank-.vm.1.jsonl"),
    *("rank-00.vm.1.jsonl", "rank-\u0660.vm.1.jsonl", "rank-0.vm.\u0661.jsonl", "rank-0.vm.-1.jsonl"),
    "rank-0..1\n.jsonl",
]


def test_a_part_has_its_rank_host_and_process_in_its_name_and_a_file_with_nearly_such_a_name_is_none(tmp_path):
    hosts = enumerate(("2", "n-1.cluster.example", "n_2", "vm"), 10)
    written = {protocol.part_path(tmp_path, rank, host, 11190): (rank, host, 11190) for rank, host in hosts}
    for path in (*written, *(tmp_path / name for name in NEARLY_PARTS)):
        path.touch()
    assert protocol.part_processes(tmp_path) == written
    assert (protocol.part_paths(tmp_path, 10), protocol.part_paths(tmp_path, 1)) == ([*written][:1], [])


def test_only_files_with_the_exact_names_are_those_of_a_timeline(tmp_path):
    paths = [tmp_path / "horovod-timeline.json", tmp_path / "operations-3.json.gz"]
    assert [protocol.horovod_timeline_path(tmp_path), protocol.operations_path(tmp_path, 3)] == paths
    copies = (tmp_path / name for name in ("horovod-timeline (copy).json", "operations-3 (copy).json.gz"))
    for path in (*paths, *copies):
        path.touch()
    assert protocol.timeline_paths(tmp_path) == paths


def test_the_newest_rate_and_assignment_are_read(tmp_path):
    path, task = protocol.link_wanted_path(tmp_path), protocol.RoundsTask(8.0, 5)
    assert protocol.read_link_rate(path) == protocol.LinkRate(0, None)
    for repeat, rate in enumerate((protocol.LinkRate(1, 10.0), protocol.LinkRate(2))):
        assignment = protocol.Assignment({"nodes": 2}, "ab", repeat, {"a.py": "12"}, True, False, task)
        protocol.write_link_rate(path, rate)
        protocol.write_assignment(tmp_path, assignment)
        assert (protocol.read_link_rate(path), protocol.read_assignment(tmp_path)) == (rate, assignment)
    assert (tmp_path / "run.json").read_text().startswith('{\n "config": {')  # for people, too
