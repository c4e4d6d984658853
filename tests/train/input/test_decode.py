import io

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from train.input import augment, decode

pytestmark = pytest.mark.slow


def encoded(pixels: np.ndarray, form: str) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, form, **({"quality": 98, "subsampling": 0} if form == "JPEG" else {}))
    return buffer.getvalue()


def quarters(height: int, width: int) -> np.ndarray:
    """Red top left, green top right, blue bottom left, white bottom right."""
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[: height // 2, : width // 2] = (255, 0, 0)
    pixels[: height // 2, width // 2 :] = (0, 255, 0)
    pixels[height // 2 :, : width // 2] = (0, 0, 255)
    pixels[height // 2 :, width // 2 :] = 255
    return pixels


@pytest.mark.parametrize("form", ["JPEG", "PNG"])
@pytest.mark.parametrize("shape", [(16, 16), (32, 48), (64, 100), (200, 160), (20, 500)])  # decoded at 1 to 1/8
def test_a_whole_image_is_stretched_whatever_its_size(form, shape):
    image = decode.whole(tf.constant(encoded(quarters(*shape), form)), 16, 3).numpy()
    assert image.shape == (16, 16, 3)
    for y, x, colour in ((3, 3, (255, 0, 0)), (3, 12, (0, 255, 0)), (12, 3, (0, 0, 255)), (12, 12, (255, 255, 255))):
        assert image[y, x] == pytest.approx(colour, abs=12)


@pytest.mark.parametrize("form", ["JPEG", "PNG"])
def test_a_window_is_the_same_pixels_in_both_formats(form):
    # Of 80 x 160 the smallest part, 10 %: 1280 pixels, square (35.8), at the bottom right: white alone.
    numbers = {**dict.fromkeys(augment.DRAWS, 0.5), "crop_area": 0.0, "crop_x": 0.999, "crop_y": 0.999}
    values = tf.constant([numbers[name] for name in augment.DRAWS], tf.float32)
    image = decode.random_part(tf.constant(encoded(quarters(80, 160), form)), 16, 3, values, 0.1).numpy()
    assert image == pytest.approx(np.full((16, 16, 3), 255), abs=12)


def test_the_middle_of_a_wide_image():
    # 100 x 300: a square of 88 (0.875 x 100, rounded to even), from (6, 106).
    assert decode.central_window(tf.constant(100), tf.constant(300)).numpy().tolist() == [6, 106, 88, 88]


def test_grey_images_get_the_channels_that_are_asked_for():
    grey = np.full((20, 20), 90, np.uint8)
    for form in ("JPEG", "PNG"):
        assert decode.whole(tf.constant(encoded(grey, form)), 16, 3).numpy() == pytest.approx(90, abs=1)


def test_no_image_raises():
    with pytest.raises(tf.errors.InvalidArgumentError):
        decode.whole(tf.constant(b"hello"), 16, 3)
