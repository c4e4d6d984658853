from train.record import reproduction
from train.record.reproduction import Outcome, Reproduction


def test_a_reproduction_is_read_as_written_and_a_later_one_replaces_it(tmp_path):
    first = Reproduction("001", [Outcome("weak_scaling", "Weak scaling", "failed", "why", ["a point"], 1, 3, 12.5)])
    assert reproduction.write(first, tmp_path / "results").name == "reproduce-001.json"
    assert reproduction.read(tmp_path / "results", "001") == first
    second = Reproduction("001", [Outcome("weak_scaling", "Weak scaling", "measured")])
    reproduction.write(second, tmp_path / "results")
    assert reproduction.read(tmp_path / "results", "001") == second
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["reproduce-001.json"]


def test_without_a_readable_file_there_is_no_reproduction(tmp_path):
    assert reproduction.read(tmp_path, "001") is None
    reproduction.path(tmp_path, "001").write_text("{")
    assert reproduction.read(tmp_path, "001") is None
