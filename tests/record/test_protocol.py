import pytest

from record import parts, protocol
from record.parts import PartWriter


@pytest.mark.parametrize("host", ["vm", "n-1.cluster.example", "n_2", "2"])
def test_the_name_of_a_part_has_its_rank_host_and_process(tmp_path, host):
    path = protocol.part_path(tmp_path, 10, host, 11190)
    path.touch()
    assert protocol.part_processes(tmp_path) == {path: (10, host, 11190)}
    assert (protocol.part_paths(tmp_path, 10), protocol.part_paths(tmp_path, 1)) == ([path], [])


def test_only_files_with_the_exact_names_are_those_of_a_timeline(tmp_path):
    for name in ("horovod-timeline.json", "horovod-timeline (copy).json", "operations-3.json.gz"):
        (tmp_path / name).touch()
    (tmp_path / "operations-3 (copy).json.gz").touch()
    assert [path.name for path in protocol.timeline_paths(tmp_path)] == [
        "horovod-timeline.json",
        "operations-3.json.gz",
    ]


NEARLY_PARTS = [
    *("rank-0.vm.11190 (copy).jsonl", "rank-0.vm.11190.sync-conflict-20261128-101010-ABCDEFG.jsonl", "rank-0.jsonl"),
    *("rank-0.vm (conflicted copy).11190.jsonl", "rank-0.vm.11190~.jsonl", "rank-0.vm.jsonl", "rank-.vm.1.jsonl"),
    *(
        "rank-00.vm.1.jsonl",
        "rank-\u0660.vm.1.jsonl",
        "rank-0.vm.\u0661.jsonl",
        "rank-0.vm.-1.jsonl",
        "rank-0..1\n.jsonl",
    ),
]


@pytest.mark.parametrize("name", NEARLY_PARTS)
def test_a_file_with_nearly_the_name_of_a_part_is_none(tmp_path, name):
    (tmp_path / name).write_text("{}\n")
    PartWriter(protocol.part_path(tmp_path, 0, "vm", 11190), rank=0, losses=[1.0])
    assert protocol.part_paths(tmp_path) == [tmp_path / "rank-0.vm.11190.jsonl"]
    assert [part.losses for part in parts.read_parts(tmp_path).values()] == [[1.0]]
