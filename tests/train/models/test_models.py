"""The parameters of each model against published counts, and one training step of each."""

import math
import re
import sys

import pytest
import yaml

import train.models
from tests.helpers import ROOT
from train.config.compose import load
from train.models import MODELS, build, find, freeze_below_classifier

pytestmark = pytest.mark.slow

CONF = ROOT / "conf" / "model"
KEYS = ["name", "image_size", "parameters", "activation_bytes_per_image"]

# All variables at 1000 classes and 3 channels: as published, or a published variant and the difference.
COUNTS = {
    # Keras documentation, table of Applications, 2019 edition (later ones round to 0.1 M).
    "vgg16": 138_357_544,
    "vgg19": 143_667_240,
    "resnet50": 25_636_712,
    "resnet101v2": 44_675_560,
    "inceptionv3": 23_851_784,
    # timm, whose normalisation has a scale and an offset a filter; here an offset, a moving mean and a variance.
    "inceptionv4": 42_679_816 + 31_584,
    # torchvision, whose fourth convolution has 256 filters, not the 384 of the footnote of 1404.5997.
    "alexnet": 61_100_840 + (384 * 9 + 1) * (384 - 256) + (384 - 256) * 9 * 256,
    "googlenet": 6_998_552,  # Netscope model zoo
    # By hand: convolutions, each with normalisation or a bias, logits.
    "tiny": 3 * 9 * 8 + 4 * 8 + 8 * 1000 + 1000,
    "digits_cnn": (3 * 9 + 4) * 16 + (16 * 9 + 4) * 32 + (32 * 9 + 4) * 64 + (4 * 4 * 64 + 1) * 1000,
    "digits_plain": (3 * 9 + 1) * 16 + (16 * 9 + 1) * 32 + (32 * 9 + 1) * 64 + (4 * 4 * 64 + 1) * 1000,
}
# For smaller images: only a first dense layer has fewer weights. AlexNet's reads 1 x 1 x 256, not 6 x 6 x 256.
SMALLER = {
    "alexnet_67": ("alexnet", COUNTS["alexnet"] - 35 * 256 * 4096),
    "googlenet_64": ("googlenet", COUNTS["googlenet"]),
}
SMALL = ("tiny", "digits_cnn", "digits_plain")
# The sides of the smallest images that the docstrings promise. A step on them takes a tenth of the time.
SMALLEST = {"alexnet": 67, "inceptionv3": 75, "inceptionv4": 75} | dict.fromkeys((*SMALL, "googlenet"), 8)


def settings(name: str) -> dict:
    return yaml.safe_load((CONF / f"{name}.yaml").read_text())


def train_one_step(model, image_size: int, channels: int, classes: int) -> float:
    """The loss of one forward and backward pass over one image, with a finite gradient of every trainable variable."""
    import tensorflow as tf
    import tf_keras

    image = tf.random.stateless_uniform((1, image_size, image_size, channels), seed=(1, 2))
    with tf.GradientTape() as tape:
        logits = model(image, training=True)
        loss = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)([classes - 1], logits)
    gradients = tape.gradient(loss, model.trainable_variables)
    assert logits.shape == (1, classes)
    assert all(bool(tf.reduce_all(tf.math.is_finite(gradient))) for gradient in gradients)
    return float(loss)


def test_every_model_has_its_yaml_and_every_yaml_its_model():
    assert {file.stem for file in CONF.glob("*.yaml")} == set(MODELS) | set(SMALLER)
    assert set(MODELS) == set(COUNTS)


@pytest.mark.parametrize("name", [*COUNTS, *SMALLER])
def test_yaml_has_the_four_keys_and_a_header(name):
    values = settings(name)
    assert list(values) == KEYS
    assert (values["name"], values["parameters"]) == SMALLER.get(name, (name, COUNTS.get(name)))
    assert f"{values['image_size']}x{values['image_size']}" in (CONF / f"{name}.yaml").read_text().splitlines()[0]


# The others take up to ten seconds.
QUICK = (*SMALL, "vgg16", "inceptionv3", "googlenet")
ON_CHANGE = pytest.mark.end_to_end, pytest.mark.on_change_of("train/models/", "conf/model/")


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in QUICK else ON_CHANGE) for n in (*COUNTS, *SMALLER)])
def test_it_has_the_published_parameters_and_trains_a_step(name):
    import tensorflow as tf

    values = settings(name)
    assert name in (values["name"], f"{values['name']}_{values['image_size']}")
    with tf.Graph().as_default():  # without initial values
        model = build(values["name"], values["image_size"], channels=3, classes=1000)
        assert model.count_params() == values["parameters"]
    if name in COUNTS:
        size, channels = SMALLEST.get(name, 32), 1 if name in SMALL else 3
        assert math.isfinite(train_one_step(build(name, size, channels, classes=10), size, channels, classes=10))


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_logits_are_float32_under_mixed_precision(policy):
    import tf_keras

    tf_keras.mixed_precision.set_global_policy(policy)
    try:
        model = build("tiny", 8, 1, classes=10)
    finally:
        tf_keras.mixed_precision.set_global_policy("float32")
    assert model.layers[1].compute_dtype == policy.removeprefix("mixed_")
    assert model.output.dtype == "float32"
    assert {variable.dtype.name for variable in model.trainable_variables} == {"float32"}


@pytest.mark.parametrize("name", ["resnet50", pytest.param("inceptionv4", marks=ON_CHANGE), "alexnet"])
def test_too_small_an_image_names_the_key_and_the_file(name):
    import tensorflow as tf

    size = SMALLEST.get(name, 32) - 1
    with (
        tf.Graph().as_default(),
        pytest.raises(ValueError, match=rf"model\.image_size={size}: {name} cannot be built.*conf/model/{name}\.yaml"),
    ):
        build(name, size, 3, 10)


@pytest.fixture
def own_model(tmp_path, monkeypatch):
    """Add a file with this code to the folder of models."""

    def add(code: str) -> dict:
        (tmp_path / "mymodel.py").write_text(code)
        monkeypatch.setattr(train.models, "__path__", [*train.models.__path__, str(tmp_path)])
        monkeypatch.delitem(sys.modules, "train.models.mymodel", raising=False)
        monkeypatch.setattr(train.models, "MODELS", result := find(train.models.__path__))
        return result

    return add


def test_own_model_of_the_page(own_model):
    page = (ROOT / "docs" / "adding.md").read_text().split("## Your own dataset")[0]
    (code,), (values,) = (re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL) for language in ("python", "yaml"))
    values = yaml.safe_load(values)
    assert list(values) == KEYS
    assert set(own_model(code)) == {*COUNTS, values["name"]}
    model = build(values["name"], values["image_size"], 3, classes=1000)
    assert model.count_params() == values["parameters"]
    assert math.isfinite(train_one_step(model, values["image_size"], 3, classes=1000))


def test_own_model_cannot_take_the_name_of_another(own_model):
    with pytest.raises(ValueError, match=r"mymodel\.py: the name 'vgg16' is taken by train/models/applications\.py"):
        own_model("MODELS = {'vgg16': None}")


def test_own_model_that_returns_no_logits(own_model):
    own_model(
        "import tf_keras\nMODELS = {'flat': lambda **_: tf_keras.Sequential([tf_keras.layers.Input((8, 8, 1))])}\n"
    )
    with pytest.raises(ValueError, match=r"model\.name='flat': returns shape \(None, 8, 8, 1\).*\(None, 10\)"):
        build("flat", 8, 1, classes=10)


@pytest.mark.parametrize("preprocessed", [False, True])
def test_only_the_classifier_moves_where_it_alone_is_trained(preprocessed):
    import numpy as np
    import tf_keras

    from train.distribution import Single
    from train.loop.learner import moving_statistics
    from train.loop.step import make_optimizer, make_train_steps

    model = build("tiny", 8, channels=3, classes=2)
    freeze_below_classifier(model)
    if preprocessed:  # as with the weights of ImageNet, where the model is within another
        images = tf_keras.layers.Input((8, 8, 3))
        model = tf_keras.Model(images, model(2.0 * images))
    before = [variable.numpy() for variable in model.variables]
    assert [tuple(variable.shape) for variable in model.trainable_variables] == [(8, 2), (2,)]
    optimizer = make_optimizer(load([]).optimizer, 1, "fp32", model, None)
    images = np.random.default_rng(0).random((4, 8, 8, 3), np.float32)
    [train_step] = make_train_steps(model, optimizer, [Single()])
    train_step(images, np.array([0, 1, 1, 1]))
    moved = [variable.name.split("/")[-1] for variable, was in zip(model.variables, before, strict=True)
             if (variable.numpy() != was).any()]  # fmt: skip
    assert moved == ["kernel:0", "bias:0"]
    assert moving_statistics(model) == []
    drifting = [variable.name for variable in moving_statistics(build("tiny", 8, channels=3, classes=2))]
    assert [name.split("/")[-1] for name in drifting] == ["moving_mean:0", "moving_variance:0"]
