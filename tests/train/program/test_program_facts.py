import os

from train.program import program_facts

EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"  # sha256sum /dev/null


def test_files_that_a_command_names_have_digests_unless_it_wrote_them(tmp_path):
    for name, changed_at in {"read": 1000.0, "written": 1002.0}.items():
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (changed_at, changed_at))
    assert program_facts.digests(["no-such-program", "read", "written"], tmp_path, 1001.0) == {
        str(tmp_path / "read"): EMPTY
    }
