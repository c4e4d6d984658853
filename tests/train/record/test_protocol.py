import msgspec
import pytest

from train.record import protocol
from train.record.protocol import Assignment


def test_an_assignment_is_read_as_it_was_written(tmp_path):
    assignment = Assignment({"nodes": 2, "model": {"name": "tiny"}}, "ab" * 32, 3, {"train/a.py": "0123"}, True, False)
    protocol.write_assignment(tmp_path, assignment)
    assert protocol.read_assignment(tmp_path) == assignment


def test_a_damaged_assignment_is_an_error(tmp_path):
    protocol.assignment_path(tmp_path).write_text('{"config": {}}')
    with pytest.raises(msgspec.ValidationError, match="config_hash"):
        protocol.read_assignment(tmp_path)


def test_part_files_of_processes_differ(tmp_path):
    paths = {protocol.part_path(tmp_path, 1, host, pid) for host in ("n1", "n2") for pid in (7, 8)}
    for path in [*paths, protocol.rank_log(tmp_path, 1), protocol.ready_path(tmp_path, 1)]:
        path.touch()
    assert set(protocol.part_paths(tmp_path)) == paths
