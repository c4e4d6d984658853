import pytest

from train.models import build, freeze_below_classifier

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def operations():
    from train.loop import operations

    return operations


def small(trained=("conv", "dense")):
    """8 x 8 x 3, a convolution of 4 filters of 3 x 3 with padding, then a dense layer to 5 classes."""
    import tf_keras

    images = tf_keras.layers.Input((8, 8, 3))
    inner = tf_keras.layers.Conv2D(4, 3, padding="same", name="conv")(images)
    logits = tf_keras.layers.Dense(5, name="dense")(tf_keras.layers.Flatten()(inner))
    model = tf_keras.Model(images, logits)
    for layer in model.layers:
        layer.trainable = layer.name in trained
    return model


# Products forward: the convolution 8 x 8 places x 3 x 3 x 3 x 4 = 6,912; the dense layer 256 x 5 = 1,280.
@pytest.mark.parametrize(
    ("trained", "expected"),
    [
        (("conv", "dense"), 2 * (2 * 6912 + 3 * 1280)),  # the first layer needs no gradient of its input
        (("dense",), 2 * (6912 + 2 * 1280)),  # nothing below the dense layer is trained
        ((), 2 * (6912 + 1280)),
    ],
)
def test_operations_worked_by_hand(operations, trained, expected):
    assert operations.per_image(small(trained)) == expected


def test_a_model_within_a_model_counts_as_its_layers(operations):
    import tf_keras

    images = tf_keras.layers.Input((8, 8, 3))
    inner = small()
    prepared = tf_keras.layers.Lambda(lambda pixels: 2 * pixels)(images)
    assert operations.per_image(tf_keras.Model(images, inner(prepared))) == 2 * (2 * 6912 + 3 * 1280)
    # Above a layer that is trained (1 x 1 x 3 x 3 products at 64 places) the convolution's input has a gradient too.
    mixed = tf_keras.layers.Conv2D(3, 1)(images)
    assert operations.per_image(tf_keras.Model(images, inner(mixed))) == 2 * (2 * 576 + 3 * (6912 + 1280))


def test_a_convolution_in_groups_and_one_by_depth(operations):
    import tf_keras

    images = tf_keras.layers.Input((8, 8, 4))
    grouped = tf_keras.layers.Conv2D(8, 1, groups=2)(images)  # 64 places x 2 inputs x 8 filters
    deep = tf_keras.layers.DepthwiseConv2D(3, strides=2, padding="same")(grouped)  # 16 places x 9 x 8
    model = tf_keras.Model(images, deep)
    assert [operations.products(layer) for layer in model.layers] == [0, 1024, 1152]


def test_a_layer_that_is_not_known_is_an_error(operations):
    import tf_keras

    layer = tf_keras.layers.Conv2DTranspose(4, 3)
    model = tf_keras.Model(images := tf_keras.layers.Input((8, 8, 3)), layer(images))
    with pytest.raises(operations.NotCounted, match="the operations of a Conv2DTranspose are not known"):
        operations.per_image(model)


# Multiply-adds of one image, forward, as published and as far as its digits go: He et al. 2015 (1512.03385), table 1
# and section 3.3; Szegedy et al. 2014 (1409.4842), table 1, sum of its column "ops"; torchvision's table of models
# (GFLOPS, which are multiply-adds there).
@pytest.mark.parametrize(
    ("model", "size", "published", "within"),
    [
        ("resnet50", 224, 3.8e9, 0.1e9),
        ("vgg19", 224, 19.63e9, 0.005e9),
        ("googlenet", 224, 1.5e9, 0.1e9),
    ],
)
def test_forward_counts_are_the_published_ones(operations, model, size, published, within):
    built = build(model, size, 3, 1000)
    assert sum(operations.products(layer) for layer in built.layers) == pytest.approx(published, abs=within)


def test_a_step_takes_three_times_the_forward_pass_but_for_the_first_layer(operations):
    built = build("alexnet", 227, 3, 1000)
    forward = [operations.products(layer) for layer in built.layers]
    first = next(count for count in forward if count)
    assert operations.per_image(built) == 2 * (3 * sum(forward) - first)
    freeze_below_classifier(built)
    assert operations.per_image(built) < 2 * 2 * sum(forward)
