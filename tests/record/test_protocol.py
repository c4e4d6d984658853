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
    names = ["horovod-timeline.json", "operations-3.json.gz"]
    for name in (*names, "horovod-timeline (copy).json", "operations-3 (copy).json.gz"):
        (tmp_path / name).touch()
    assert [path.name for path in protocol.timeline_paths(tmp_path)] == names
