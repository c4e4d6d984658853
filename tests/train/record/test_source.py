from train.record import source


def tree(root, step: str = "a = 1\n"):
    for name, text in (("train/loop/step.py", step), ("conf/model/tiny.yaml", "name: tiny\n"), ("train/x.pyc", "")):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_copies_agree_whatever_else_lies_beside_them(tmp_path):
    one, two = (source.files(tree(tmp_path / name)) for name in ("one", "two"))
    assert list(one) == ["conf/model/tiny.yaml", "train/loop/step.py"]
    assert source.digest(one) == source.digest(two)
    assert source.differing(one, two) == []


def test_a_changed_or_missing_file_is_named(tmp_path):
    one = source.files(tree(tmp_path / "one"))
    changed = source.files(tree(tmp_path / "two", step="a = 2\n"))
    assert source.digest(one) != source.digest(changed)
    assert source.differing(one, changed) == ["train/loop/step.py"]
    without = {path: text for path, text in one.items() if path != "conf/model/tiny.yaml"}
    assert source.differing(one, without) == ["conf/model/tiny.yaml"]


def test_this_tree_holds_the_code_and_its_configuration():
    assert {"train/record/source.py", "conf/config.yaml"} <= set(source.files())
