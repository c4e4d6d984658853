from record import reproduction


def test_without_a_readable_file_there_is_no_reproduction(tmp_path):
    assert reproduction.read_reproduction(tmp_path, "001") is None
    reproduction.reproduction_path(tmp_path, "001").write_text("{")
    assert reproduction.read_reproduction(tmp_path, "001") is None
