"""Starting weights: from a file, and as tf_keras downloads and verifies them, here from a folder of this machine."""

import hashlib

import numpy as np
import pytest

from train.config.checks import ConfigError
from train.config.compose import load
from train.loop import weights
from train.models import build

TINY = ("model=tiny", "model.image_size=16", "dataset.classes=3", "batch_per_rank=1")
RESNET = ("model=resnet50", "model.image_size=32", "dataset.classes=3", "batch_per_rank=1", "weights=imagenet")


def tiny():
    return build("tiny", 16, 3, 3)


def test_weights_that_are_not_published_are_refused():
    with pytest.raises(
        ConfigError, match="weights=imagenet: there are such weights for three channels and inceptionv3, res"
    ):
        load([*TINY, "weights=imagenet"])
    with pytest.raises(ConfigError, match="not for resnet50 with 1"):
        load([*RESNET, "dataset=digits"])


@pytest.mark.slow
def test_weights_are_read_from_a_file_which_is_identified_by_its_digest(tmp_path):
    saved, path = tiny(), tmp_path / "tiny.h5"
    for variable in saved.variables:
        variable.assign(np.full(variable.shape, 0.25))
    saved.save_weights(path)
    config = load([*TINY, f"weights={path}"])
    model = weights.start(tiny(), config, load=True)
    assert all((variable.numpy() == 0.25).all() for variable in model.variables)
    assert weights.fetched_weights(config) == (
        f"starts from the weights in {path}, sha256 {hashlib.sha256(path.read_bytes()).hexdigest()}"
    )


@pytest.mark.slow
def test_a_file_that_is_missing_damaged_or_of_another_model_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"none\.h5: no such file; allowed are none, imagenet"):
        weights.fetched_weights(load([*TINY, f"weights={tmp_path}/none.h5"]))
    damaged = tmp_path / "damaged.h5"
    damaged.write_bytes(b"no HDF5")
    with pytest.raises(ConfigError, match=r"damaged\.h5: not the weights of model=tiny"):
        weights.fetched_weights(load([*TINY, f"weights={damaged}"]))
    another = tmp_path / "another.h5"
    tiny().save_weights(another)
    with pytest.raises(ConfigError, match=r"another\.h5: not the weights of model=tiny"):
        weights.fetched_weights(load([*TINY, f"weights={another}", "dataset.classes=4"]))


@pytest.fixture
def resnet(tmp_path, monkeypatch):
    """The module of a ResNet50 with one block a stage, of four filters, which takes a tenth of the time."""
    from tf_keras.src.applications import resnet

    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    stack = resnet.stack1
    monkeypatch.setattr(resnet, "stack1", lambda x, filters, blocks, **named: stack(x, 4, 1, **named))
    return resnet


WEIGHTS_FILE = "resnet50_weights_tf_dim_ordering_tf_kernels_notop.h5"


@pytest.mark.slow
def test_published_weights_are_downloaded_for_all_but_the_classifier(resnet, tmp_path, monkeypatch):
    source, served = resnet.ResNet50(weights=None, include_top=False, input_shape=(32, 32, 3)), tmp_path / WEIGHTS_FILE
    source.save_weights(served)
    monkeypatch.setattr(resnet, "BASE_WEIGHTS_PATH", f"{tmp_path.as_uri()}/")
    monkeypatch.setitem(resnet.WEIGHTS_HASHES, "resnet50", ("unused", hashlib.md5(served.read_bytes()).hexdigest()))
    config, home = load([*RESNET]), tmp_path / "home/.keras"
    base = build("resnet50", 32, 3, 3)
    other = weights.start(base, config, load=False)  # on another rank: nothing is read
    assert not home.exists()
    fresh = base.weights[-2].numpy().copy()
    model = weights.start(base, config, load=True)
    assert len(other.variables) == len(model.variables)
    assert (home / "models" / WEIGHTS_FILE).is_file()
    for ours, theirs in zip(base.weights, source.weights, strict=False):
        np.testing.assert_array_equal(ours, theirs)
    assert len(base.weights) == len(source.weights) + 2
    np.testing.assert_array_equal(base.weights[-2], fresh)
    # ResNet50's authors fed blue, green, red, less the means of ImageNet: 255 - 103.939, - 116.779, - 123.68.
    white_red = np.zeros((1, 32, 32, 3), np.float32)
    white_red[..., 0] = 1.0
    preprocessed = model.get_layer("preprocess")(white_red).numpy()[0, 0, 0]
    np.testing.assert_allclose(preprocessed, [-103.939, -116.779, 255 - 123.68], rtol=1e-5)
    assert model.output_shape == (None, 3)


@pytest.mark.slow
def test_without_a_network_the_error_names_the_file_and_its_folder(resnet, tmp_path, monkeypatch):
    monkeypatch.setattr(resnet, "BASE_WEIGHTS_PATH", "http://127.0.0.1:9/")  # nobody listens on the discard port
    path = tmp_path / "home/.keras/models" / WEIGHTS_FILE
    with pytest.raises(ConfigError, match=f"/{WEIGHTS_FILE} cannot be downloaded .*put it at {path}"):
        weights.fetched_weights(load([*RESNET]))


@pytest.mark.slow
def test_a_damaged_download_is_named(resnet, tmp_path, monkeypatch):
    (tmp_path / WEIGHTS_FILE).write_bytes(b"no HDF5")
    monkeypatch.setattr(resnet, "BASE_WEIGHTS_PATH", f"{tmp_path.as_uri()}/")
    monkeypatch.setitem(resnet.WEIGHTS_HASHES, "resnet50", ("unused", "0" * 32))
    with pytest.raises(ConfigError, match=r"weights=imagenet: .*Remove the damaged file in .*/\.keras/models"):
        weights.fetched_weights(load([*RESNET]))
