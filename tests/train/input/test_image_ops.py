import io
from functools import partial

import numpy as np
import pytest
from PIL import Image

from train.config.training_config import AugmentationConfig
from train.input import image_ops
from train.input.image_ops import DRAWS, augment, crop_window, draws

pytestmark = pytest.mark.slow

NEUTRAL = dict.fromkeys(DRAWS, 0.5)


def constant(value):
    """The value as a tensor. TensorFlow is imported here, not when tests are collected, as it takes seconds."""
    import tensorflow as tf

    return tf.constant(value)


def numbers(**drawn: float):
    """The draws of one sample; those that are not named are 0.5."""
    return constant([{**NEUTRAL, **drawn}[name] for name in DRAWS])


def ramp(size: int = 5) -> np.ndarray:
    """An image (size, size, 1) whose pixel at (y, x) is 10 y + x."""
    return (10.0 * np.arange(size)[:, None] + np.arange(size)).astype(np.float32)[:, :, None]


SHIFT, FLIP = {"shift_fraction": 0.4}, {"flip": True}  # up to 2 of 5 pixels


@pytest.mark.parametrize(
    ("settings", "drawn", "part", "expected"),
    [
        (
            SHIFT | FLIP | {"rotation_degrees": 30},
            {"zoom": 0.0},
            ...,
            ramp()[:, :, 0],
        ),  # draws of one half move nothing
        (FLIP, {"flip": 0.49}, 0, [4, 3, 2, 1, 0]),
        (FLIP, {"flip": 0.51}, 0, [0, 1, 2, 3, 4]),
        # The lowest draw takes each pixel from two to its left, where the edge is; the highest from two below, or 0.
        (SHIFT, {"shift_x": 0.0}, 0, [0, 0, 0, 1, 2]),
        (SHIFT | {"fill": "zero"}, {"shift_y": 0.999}, (..., 1), [21, 31, 41, 0, 0]),
        *((SHIFT, {"shift_x": (k + 0.5) / 5}, (2, 2), 20 + k) for k in range(5)),  # all are equally likely
        # About the middle pixel (2, 2) = 22: one output pixel further is half a pixel further in the source.
        ({"zoom_in_fraction": 1.0}, {"zoom": 1.0}, 2, [21, 21.5, 22, 22.5, 23]),
        ({"rotation_degrees": 90}, {"rotation": 1.0}, ..., np.rot90(ramp()[:, :, 0])),
    ],
)
def test_an_image_is_moved_as_drawn(settings, drawn, part, expected):
    image = augment(constant(ramp()), numbers(**drawn), AugmentationConfig(**settings)).numpy()[:, :, 0]
    assert image[part] == pytest.approx(expected, abs=1e-4)


def test_windows_have_the_area_and_aspect_that_were_drawn():
    # 400 x 400; area drawn in the middle of 8 to 100 % = 54 %, square: side sqrt(0.54) x 400 = 293.9.
    assert crop_window(numbers(), 0.08, 400, 400).numpy().tolist() == [53, 53, 294, 294]
    # The smallest area, 8 % of 400 x 400 = 12800, at 4:3: 130.6 wide, 98.0 high, at the top left.
    smallest = numbers(crop_area=0.0, crop_aspect=1.0, crop_x=0.0, crop_y=0.0)
    assert crop_window(smallest, 0.08, 400, 400).numpy().tolist() == [0, 0, 98, 131]


def test_windows_stay_inside():
    for values in draws(50, 0, 0):
        top, left, height, width = crop_window(constant(values), 0.08, 37, 300).numpy()
        assert 0 <= top <= 37 - height
        assert 0 <= left <= 300 - width
        assert height >= 1
        assert width >= 1


def quarters(height: int, width: int) -> np.ndarray:
    """Red top left, green top right, blue bottom left, white bottom right."""
    colours = np.array([[(255, 0, 0), (0, 255, 0)], [(0, 0, 255), (255, 255, 255)]], np.uint8)
    return colours.repeat(height // 2, axis=0).repeat(width // 2, axis=1)


def read(pixels: np.ndarray, form: str, window=None) -> np.ndarray:
    """The pixels, encoded, as read at 16 x 16 in three channels."""
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, form, **({"quality": 98, "subsampling": 0} if form == "JPEG" else {}))
    return image_ops.read_image(constant(buffer.getvalue()), 16, 3, window).numpy()


@pytest.mark.parametrize("form", ["JPEG", "PNG"])
@pytest.mark.parametrize("shape", [(16, 16), (64, 100), (200, 160)])  # decoded at 1 to 1/8
def test_a_whole_image_is_stretched_whatever_its_size(form, shape):
    image = read(quarters(*shape), form)
    assert image.shape == (16, 16, 3)
    for y, x, colour in ((3, 3, (255, 0, 0)), (3, 12, (0, 255, 0)), (12, 3, (0, 0, 255)), (12, 12, (255, 255, 255))):
        assert image[y, x] == pytest.approx(colour, abs=12)


@pytest.mark.parametrize("form", ["JPEG", "PNG"])
def test_a_window_is_the_same_pixels_in_both_formats(form):
    # Of 80 x 160 the smallest part, 10 %: 1280 pixels, square (35.8), at the bottom right: white alone.
    window = partial(crop_window, numbers(crop_area=0.0, crop_x=0.999, crop_y=0.999), 0.1)
    assert read(quarters(80, 160), form, window) == pytest.approx(np.full((16, 16, 3), 255), abs=12)
    assert read(np.full((20, 20), 90, np.uint8), form) == pytest.approx(np.full((16, 16, 3), 90), abs=1)  # grey


def test_the_middle_of_a_wide_image():
    # 100 x 300: a square of 88 (0.875 x 100, rounded to even), from (6, 106).
    assert image_ops.central_window(constant(100), constant(300)).numpy().tolist() == [6, 106, 88, 88]
