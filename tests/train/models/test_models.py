"""Each model against published counts, against sums worked out by hand from the paper, and in one training step."""

import math
import re
import subprocess
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

# All variables at 1000 classes and 3 channels: as published, or, where nobody publishes this variant, the sum below.
KERAS = "Keras documentation, table of Applications, 2019 edition (later ones round to 0.1 M)"
COUNTS = {
    "vgg16": (138_357_544, KERAS),
    "vgg19": (143_667_240, KERAS),
    "resnet50": (25_636_712, KERAS),
    "resnet101v2": (44_675_560, KERAS),
    "inceptionv3": (23_851_784, KERAS),
    "inceptionv4": (42_648_232 + 2 * 31_584, "test_inceptionv4_by_hand, and a moving mean and variance a filter"),
    "alexnet": (61_838_248, "test_alexnet_by_hand"),
    "googlenet": (6_998_552, "Netscope model zoo, GoogLeNet; and test_googlenet_by_hand"),
    "tiny": (3 * 9 * 8 + 4 * 8 + 8 * 1000 + 1000, "by hand: convolution, normalisation, logits"),
    "digits_cnn": (
        (3 * 9 * 16 + 4 * 16) + (16 * 9 * 32 + 4 * 32) + (32 * 9 * 64 + 4 * 64) + (4 * 4 * 64 * 1000 + 1000),
        "by hand: three convolutions with normalisation, logits",
    ),
    "digits_plain": (
        (3 * 9 + 1) * 16 + (16 * 9 + 1) * 32 + (32 * 9 + 1) * 64 + (4 * 4 * 64 + 1) * 1000,
        "by hand: three convolutions with biases, logits",
    ),
}
# For smaller images: only a first dense layer has fewer weights. AlexNet's reads 1 x 1 x 256, not 6 x 6 x 256.
SMALLER = {"alexnet_67": ("alexnet", 61_838_248 - 35 * 256 * 4096), "googlenet_64": ("googlenet", 6_998_552)}
SMALL = ("tiny", "digits_cnn", "digits_plain")
# The sides of the smallest images that the docstrings promise. A step on them takes a tenth of the time.
SMALLEST = {"alexnet": 67, "googlenet": 8, "inceptionv3": 75, "inceptionv4": 75} | dict.fromkeys(
    ("vgg16", "vgg19", "resnet50", "resnet101v2"), 32
)
DENSE = ("vgg16", "vgg19", "alexnet", "digits_cnn", "digits_plain")  # more weights for larger images


def settings(name: str) -> dict:
    return yaml.safe_load((CONF / f"{name}.yaml").read_text())


def train_one_step(model, image_size: int, channels: int, classes: int) -> float:
    """The loss of one forward and backward pass over one image, checked to move every trainable variable's gradient."""
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


@pytest.mark.parametrize("name", SMALLER)
def test_a_model_for_smaller_images(name):
    import tensorflow as tf

    values = settings(name)
    assert list(values) == KEYS
    assert (values["name"], values["parameters"]) == SMALLER[name]
    assert name == f"{values['name']}_{values['image_size']}"
    with tf.Graph().as_default():
        assert build(values["name"], values["image_size"], channels=3, classes=1000).count_params() == SMALLER[name][1]


@pytest.mark.parametrize("name", COUNTS)
def test_yaml_has_the_four_keys_and_a_header(name):
    values = settings(name)
    assert list(values) == KEYS
    assert values["name"] == name
    assert values["parameters"] == COUNTS[name][0]
    assert (
        (CONF / f"{name}.yaml").read_text().splitlines()[0].endswith(f"{values['image_size']}x{values['image_size']}")
    )


def test_names_are_known_without_tensorflow():
    code = "import sys, train.models; assert train.models.MODELS; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in SMALL else pytest.mark.end_to_end) for name in COUNTS]
)
def test_it_has_the_published_parameters_and_trains_a_step(name):
    import tensorflow as tf

    published, size = settings(name)["image_size"], SMALLEST.get(name, settings(name)["image_size"])
    model = build(name, size, channels=3, classes=1000)
    assert math.isfinite(train_one_step(model, size, 3, classes=1000))
    if name in DENSE:
        with tf.Graph().as_default():
            model = build(name, published, channels=3, classes=1000)
    assert model.count_params() == COUNTS[name][0]


def test_alexnet_by_hand():
    # Footnote of 1404.5997: 64, 192, 384, 384, 256 filters; kernels and layers as in the paper of 2012. With biases.
    convolutions = [(3, 64, 11), (64, 192, 5), (192, 384, 3), (384, 384, 3), (384, 256, 3)]
    dense = [(6 * 6 * 256, 4096), (4096, 4096), (4096, 1000)]
    by_hand = sum((i * k * k + 1) * o for i, o, k in convolutions) + sum((i + 1) * o for i, o in dense)
    # torchvision has 256 filters in the fourth convolution, and publishes 61,100,840.
    torchvision = by_hand - (384 * 9 + 1) * (384 - 256) - (384 - 256) * 9 * 256
    assert torchvision == 61_100_840
    assert by_hand == COUNTS["alexnet"][0]


def test_googlenet_by_hand():
    # Table 1 of 1409.4842: input depth; 1x1, 3x3 reduce, 3x3, 5x5 reduce, 5x5, pool projection. With biases.
    blocks = [
        (192, 64, 96, 128, 16, 32, 32),
        (256, 128, 128, 192, 32, 96, 64),
        (480, 192, 96, 208, 16, 48, 64),
        (512, 160, 112, 224, 24, 64, 64),
        (512, 128, 128, 256, 24, 64, 64),
        (512, 112, 144, 288, 32, 64, 64),
        (528, 256, 160, 320, 32, 128, 128),
        (832, 256, 160, 320, 32, 128, 128),
        (832, 384, 192, 384, 48, 128, 128),
    ]
    by_hand = (3 * 49 + 1) * 64 + (64 + 1) * 64 + (64 * 9 + 1) * 192 + (1024 + 1) * 1000
    for depth, one, to_three, three, to_five, five, pool in blocks:
        by_hand += (
            (depth + 1) * (one + to_three + to_five + pool) + (to_three * 9 + 1) * three + (to_five * 25 + 1) * five
        )
    assert by_hand == COUNTS["googlenet"][0]


def test_inceptionv4_by_hand():
    # Figures 3 to 8 of 1602.07261, a convolution a triple: input depth, filters, kernel area. No bias, an offset.
    stem = [(3, 32, 9), (32, 32, 9), (32, 64, 9), (64, 96, 9)]
    stem += [(160, 64, 1), (64, 96, 9), (160, 64, 1), (64, 64, 7), (64, 64, 7), (64, 96, 9), (192, 192, 9)]
    a = [(384, 96, 1), (384, 96, 1), (384, 64, 1), (64, 96, 9), (384, 64, 1), (64, 96, 9), (96, 96, 9)]
    to_b = [(384, 384, 9), (384, 192, 1), (192, 224, 9), (224, 256, 9)]
    b = [(1024, 128, 1), (1024, 384, 1), (1024, 192, 1), (192, 224, 7), (224, 256, 7)]
    b += [(1024, 192, 1), (192, 192, 7), (192, 224, 7), (224, 224, 7), (224, 256, 7)]
    to_c = [(1024, 192, 1), (192, 192, 9), (1024, 256, 1), (256, 256, 7), (256, 320, 7), (320, 320, 9)]
    c = [(1536, 256, 1), (1536, 256, 1), (1536, 384, 1), (384, 256, 3), (384, 256, 3)]
    c += [(1536, 384, 1), (384, 448, 3), (448, 512, 3), (512, 256, 3), (512, 256, 3)]
    convolutions = stem + 4 * a + to_b + 7 * b + to_c + 3 * c
    assert len(convolutions) == 149
    filters = sum(o for _, o, _ in convolutions)
    trainable = sum(i * o * area for i, o, area in convolutions) + filters + (1536 + 1) * 1000
    # OpenVINO's model page of googlenet-v4-tf, from the authors' weights, says 42.648 M. The PyTorch ports (timm,
    # pretrained-models.pytorch), whose normalisation has a scale too, have 42,679,816.
    assert round(trainable / 1e6, 3) == 42.648
    assert trainable + filters == 42_679_816
    assert trainable + 2 * filters == COUNTS["inceptionv4"][0]


@pytest.mark.parametrize("name", SMALL)
def test_small_models_train_a_step_on_grey_images(name):
    size = settings(name)["image_size"]
    assert math.isfinite(train_one_step(build(name, size, 1, classes=10), size, 1, classes=10))


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


def test_unknown_model_says_what_there_is():
    with pytest.raises(ValueError, match=r"model\.name='vgg17'.*allowed: alexnet, .*vgg16, vgg19"):
        build("vgg17", 224, 3, 1000)


@pytest.mark.parametrize(
    ("name", "size"), [("vgg16", 31), ("resnet50", 31), ("inceptionv3", 74), ("inceptionv4", 74), ("alexnet", 66)]
)
def test_too_small_an_image_names_the_key_and_the_file(name, size):
    with pytest.raises(ValueError, match=rf"model\.image_size={size}: {name} cannot be built.*conf/model/{name}\.yaml"):
        build(name, size, 3, 10)


@pytest.mark.parametrize("name", ["tiny", "digits_cnn"])
def test_smallest_image_that_the_docstring_promises(name):
    assert build(name, 8, 3, 10).output.shape == (None, 10)


@pytest.fixture
def own_model(tmp_path, monkeypatch):
    """Put `code` where a user would: in one more file of the folder of models."""

    def add(code: str, file: str = "mymodel") -> dict:
        (tmp_path / f"{file}.py").write_text(code)
        monkeypatch.setattr(train.models, "__path__", [*train.models.__path__, str(tmp_path)])
        monkeypatch.delitem(sys.modules, f"train.models.{file}", raising=False)
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
    with pytest.raises(ValueError, match=r"zz\.py: the name 'vgg16' is taken by train/models/applications\.py"):
        own_model("MODELS = {'vgg16': None}", "zz")


def test_own_model_that_returns_no_logits(own_model):
    own_model(
        "def flat(*, image_size, channels, classes):\n"
        "    import tf_keras\n"
        "    return tf_keras.Sequential([tf_keras.layers.Input((image_size, image_size, channels))])\n"
        "MODELS = {'flat': flat}\n"
    )
    with pytest.raises(ValueError, match=r"model\.name='flat': returns shape \(None, 8, 8, 1\).*\(None, 10\)"):
        build("flat", 8, 1, classes=10)


@pytest.mark.parametrize("preprocessed", [False, True])
def test_only_the_classifier_moves_where_it_alone_is_trained(preprocessed):
    import numpy as np
    import tf_keras

    from train.distribution import Single
    from train.loop.learner import moving_statistics
    from train.loop.step import make_optimizer, make_train_step

    model = build("tiny", 8, channels=3, classes=2)
    freeze_below_classifier(model)
    if preprocessed:  # as with the weights of ImageNet: the model lies within another
        images = tf_keras.layers.Input((8, 8, 3))
        model = tf_keras.Model(images, model(2.0 * images))
    before = [variable.numpy() for variable in model.variables]
    assert [tuple(variable.shape) for variable in model.trainable_variables] == [(8, 2), (2,)]
    optimizer = make_optimizer(load([]).optimizer, 1, "fp32", model, None)
    images = np.random.default_rng(0).random((4, 8, 8, 3), np.float32)
    make_train_step(model, optimizer, Single())(images, np.array([0, 1, 1, 1]))
    moved = [variable.name.split("/")[-1] for variable, was in zip(model.variables, before, strict=True)
             if (variable.numpy() != was).any()]  # fmt: skip
    assert moved == ["kernel:0", "bias:0"]
    assert moving_statistics(model) == []


def test_the_moving_statistics_of_layers_that_are_trained_drift():
    from train.loop.learner import moving_statistics

    names = [variable.name for variable in moving_statistics(build("tiny", 8, channels=3, classes=2))]
    assert [name.split("/")[-1] for name in names] == ["moving_mean:0", "moving_variance:0"]
