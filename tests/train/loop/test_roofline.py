from types import SimpleNamespace

import pytest

from record.schema import MatrixProduct, Transfer
from tests.helpers.context import FirstOfTwo, make_context
from tests.helpers.lazy import Lazy
from train.config.compose import load
from train.distribution import Single
from train.loop import roofline
from train.models import build

tf, tf_keras = Lazy("tensorflow"), Lazy("tf_keras")
RING = Transfer("tcp_ring", "rank 1", 100, 2.0)


@pytest.fixture
def measure(monkeypatch):
    """Measure rooflines in which products, links and the memory give these results; return the part."""

    def measure(*overrides, ranks=None, memory=True, links=([RING], []), arms=(None,), **options):
        context = make_context(load(list(overrides)), ranks or FirstOfTwo())
        products = {0.1: "burst", 0.4: "long burst"}
        monkeypatch.setattr(
            roofline,
            "multiply",
            lambda precision, burst_s, bursts: MatrixProduct(products[burst_s], [bursts]) if memory else None,
        )
        monkeypatch.setattr(roofline.links, "ring", lambda ranks, seconds, key: links)
        for arm in arms:
            roofline.measure(context, context.distribution, arm, **options)
        return context.part.part

    return measure


@pytest.mark.slow
def test_two_matrices_are_multiplied_in_bursts():
    product = roofline.multiply("fp32", 0.01, 3)
    assert product.rows >= 1024
    assert len(product.times_s) == 3
    assert 1e9 < 2 * product.rows**3 / min(product.times_s) < 1e14


@pytest.mark.parametrize(
    ("overrides", "options", "products", "rings"),
    [
        (["nodes=2"], {}, [("burst", 3, None)], [None]),
        (["nodes=2"], {"arms": [3]}, [("burst", 3, 3)], [3]),
        (["nodes=2"], {"brief": True}, [("burst", 1, None)], []),  # the products alone, once
        (["nodes=1"], {"ranks": Single()}, [("burst", 3, None)], []),
        (["nodes=2", "distribution.controller=mpi"], {}, [("burst", 3, None)], []),  # exchanges are not over TCP
        (["nodes=2", "device=gpu", "distribution.controller=gloo"], {}, [("burst", 3, None)], []),
        (["nodes=2", "system.cpu_quota_per_node=0.2"], {}, [("long burst", 3, None)], [None]),  # of many quota periods
    ],
)
def test_products_and_what_ranks_stream_in_a_ring_over_tcp(measure, overrides, options, products, rings):
    part = measure(*overrides, **options)
    assert [(product.rows, *product.times_s, product.arm) for product in part.matrix_products] == products
    assert [(transfer.what, transfer.arm) for transfer in part.transfers] == [("tcp_ring", arm) for arm in rings]
    assert part.notes == []


def test_a_limit_that_cannot_be_measured_leaves_one_note(measure):
    part = measure("nodes=2", memory=False, links=([], ["tcp_ring: rank 1: refused"]), arms=(0, 1))
    assert part.notes == [
        "the compute limit is not known: there is not enough memory to multiply matrices",
        "the limit of the link is not known: tcp_ring: rank 1: refused",
    ]
    assert part.matrix_products == []


@pytest.mark.slow
def test_the_work_of_a_step_is_recorded_with_the_bytes_of_its_gradients():
    layers = tf_keras.layers
    context = make_context(load(["nodes=1"]))
    learner = SimpleNamespace(model=tf_keras.Sequential([layers.Input((4,)), layers.Dense(3)]))
    roofline.record_work(context, learner)
    work = context.part.part.work
    assert (work.operations_per_image, work.gradient_bytes) == (2 * 2 * 12, 4 * (12 + 3))
    learner.model.add(layers.Reshape((1, 1, 3)))
    learner.model.add(layers.Conv2DTranspose(4, 3))
    roofline.record_work(context, learner)
    assert context.part.part.work.operations_per_image is None
    assert "the operations of a Conv2DTranspose are not known" in context.part.part.notes[0]


def small(trained=("conv", "dense")):
    """8 x 8 x 3, a convolution of 4 filters of 3 x 3 with padding, then a dense layer to 5 classes."""
    images = tf_keras.layers.Input((8, 8, 3))
    inner = tf_keras.layers.Conv2D(4, 3, padding="same", name="conv")(images)
    logits = tf_keras.layers.Dense(5, name="dense")(tf_keras.layers.Flatten()(inner))
    model = tf_keras.Model(images, logits)
    for layer in model.layers:
        layer.trainable = layer.name in trained
    return model


# Products forward: the convolution 8 x 8 positions x 3 x 3 x 3 x 4 = 6,912; the dense layer 256 x 5 = 1,280.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("trained", "expected"),
    [
        (("conv", "dense"), 2 * (2 * 6912 + 3 * 1280)),  # the first layer needs no gradient of its input
        (("dense",), 2 * (6912 + 2 * 1280)),  # nothing below the dense layer is trained
        ((), 2 * (6912 + 1280)),
    ],
)
def test_operations_worked_by_hand(trained, expected):
    assert roofline.operations_per_image(small(trained)) == expected


@pytest.mark.slow
def test_a_model_within_a_model_counts_as_its_layers():
    images = tf_keras.layers.Input((8, 8, 3))
    inner = small()
    prepared = tf_keras.layers.Lambda(lambda pixels: 2 * pixels)(images)
    assert roofline.operations_per_image(tf_keras.Model(images, inner(prepared))) == 2 * (2 * 6912 + 3 * 1280)
    # Above a layer that is trained (1 x 1 x 3 x 3 products at 64 positions) the convolution's input has a gradient too.
    mixed = tf_keras.layers.Conv2D(3, 1)(images)
    assert roofline.operations_per_image(tf_keras.Model(images, inner(mixed))) == 2 * (2 * 576 + 3 * (6912 + 1280))


@pytest.mark.slow
def test_a_convolution_in_groups_and_one_by_depth():
    images = tf_keras.layers.Input((8, 8, 4))
    grouped = tf_keras.layers.Conv2D(8, 1, groups=2)(images)  # 64 positions x 2 inputs x 8 filters
    deep = tf_keras.layers.DepthwiseConv2D(3, strides=2, padding="same")(grouped)  # 16 positions x 9 x 8
    model = tf_keras.Model(images, deep)
    assert [roofline.products(layer) for layer in model.layers] == [0, 1024, 1152]


# Multiply-adds of one image, forward, as published and as far as its digits go: He et al. 2015 (1512.03385), table 1
# and section 3.3; Szegedy et al. 2014 (1409.4842), table 1, sum of its column "ops"; torchvision's table of models
# (GFLOPS, which are multiply-adds there).
@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "size", "published", "tolerance"),
    [("resnet50", 224, 3.8e9, 0.1e9), ("vgg19", 224, 19.63e9, 0.005e9), ("googlenet", 224, 1.5e9, 0.1e9)],
)
def test_forward_counts_are_the_published_ones(model, size, published, tolerance):
    with tf.Graph().as_default():  # without initial values
        built = build(model, size, 3, 1000)
    assert sum(roofline.products(layer) for layer in built.layers) == pytest.approx(published, abs=tolerance)
