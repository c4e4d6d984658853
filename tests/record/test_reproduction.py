from record import reproduction
from record.reproduction import ExperimentOutcome, Reproduction


def test_the_last_reproduction_is_read_as_it_was_written(tmp_path):
    for status in ("measured", "not run", "failed", "submitted"):
        written = Reproduction("001", [ExperimentOutcome("weak_scaling", "Weak scaling", status)])
        path = reproduction.write_reproduction(written, tmp_path)
        assert reproduction.read_reproduction(tmp_path, "001") == written
    assert written.outcomes == [ExperimentOutcome("weak_scaling", "Weak scaling", "submitted", "", [], 0, 0, 0.0)]
    assert path == tmp_path / "reproduce-001.json"
    text = path.read_text()
    assert (text[:18], text[-3:]) == ('{\n "report": "001"', "\n}\n")  # for people, too


def test_without_a_readable_file_there_is_no_reproduction(tmp_path):
    assert reproduction.read_reproduction(tmp_path, "001") is None
    reproduction.reproduction_path(tmp_path, "001").write_text("{")
    assert reproduction.read_reproduction(tmp_path, "001") is None
