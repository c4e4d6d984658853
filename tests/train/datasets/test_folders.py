"""The errors of each dataset for a folder that does not hold it."""

import pytest

from train.config.checks import ConfigError

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("dataset", "folders", "file", "message"),
    [
        ("cifar10", [], "", "data_dir=.*/there: there is no such folder"),
        ("cifar10", [], "there", "data_dir=.*/there: not a folder"),
        ("cifar10", ["there"], "there/x-python.tar.gz", "found x-python.tar.gz; expected .*Unpack the archive first"),
        ("caltech256", ["there/101_Objects/ant"], "", "found 101_Objects/; expected one folder a class, 001.ak47 to"),
        ("fruit", ["there/train"], "", "found train/; expected the folders train and test"),
        ("imagenet", ["there/train/n01440764"], "", "found train/; expected TFRecord files train-00000-of-01024"),
        ("imdb_wiki", ["there/imdb_crop"], "", "found imdb_crop/; expected imdb_crop with imdb.mat"),
    ],
)
def test_a_wrong_folder_is_explained(tmp_path, dataset, folders, file, message, open_dataset):
    for folder in folders:
        (tmp_path / folder).mkdir(parents=True)
    if file:
        (tmp_path / file).touch()
    with pytest.raises(ConfigError, match=message):
        open_dataset(dataset, tmp_path / "there")
