import numpy as np
import pytest
import tensorflow as tf

from train.config.checks import ConfigError, check_section
from train.config.schema import Augmentation
from train.input.augment import DRAWS, augment, crop_window, draws

pytestmark = pytest.mark.slow

NEUTRAL = dict.fromkeys(DRAWS, 0.5)


def numbers(**drawn: float) -> tf.Tensor:
    """The draws of one sample, those that are not named in the middle."""
    return tf.constant([{**NEUTRAL, **drawn}[name] for name in DRAWS], tf.float32)


def ramp(size: int = 5) -> np.ndarray:
    """An image (size, size, 1) whose pixel at (y, x) is 10 y + x."""
    return (10.0 * np.arange(size)[:, None] + np.arange(size)).astype(np.float32)[:, :, None]


def augmented(image: np.ndarray, settings: Augmentation, **drawn: float) -> np.ndarray:
    return augment(tf.constant(image), numbers(**drawn), settings).numpy()[:, :, 0]


def test_in_the_middle_of_all_draws_nothing_moves():
    settings = Augmentation(shift_fraction=0.4, rotation_degrees=30, flip=True)
    assert augmented(ramp(), settings, zoom=0.0) == pytest.approx(ramp()[:, :, 0], abs=1e-4)


def test_flipped_below_one_half():
    settings = Augmentation(flip=True)
    assert augmented(ramp(), settings, flip=0.49)[0].tolist() == [4, 3, 2, 1, 0]
    assert augmented(ramp(), settings, flip=0.51)[0].tolist() == [0, 1, 2, 3, 4]


def test_shifts_are_whole_pixels_and_the_edge_or_zero_comes_in():
    # 0.4 of 5 pixels: up to 2. The lowest draw takes each pixel from two to its left, the highest from two below.
    assert augmented(ramp(), Augmentation(shift_fraction=0.4), shift_x=0.0)[0] == pytest.approx([0, 0, 0, 1, 2])
    assert augmented(ramp(), Augmentation(shift_fraction=0.4, fill="zero"), shift_y=0.999)[:, 1] == pytest.approx(
        [21, 31, 41, 0, 0]
    )


def test_all_shifts_are_equally_likely():
    settings = Augmentation(shift_fraction=0.4)
    firsts = [augmented(ramp(), settings, shift_x=(k + 0.5) / 5)[2, 2] for k in range(5)]
    assert firsts == pytest.approx([20, 21, 22, 23, 24])


def test_zoomed_in_twice_every_second_pixel_is_between_two():
    # About the middle pixel (2, 2) = 22: one output pixel further is half a pixel further in the source.
    assert augmented(ramp(), Augmentation(zoom_in_fraction=1.0), zoom=1.0)[2] == pytest.approx([21, 21.5, 22, 22.5, 23])


def test_a_quarter_turn():
    turned = augmented(ramp(), Augmentation(rotation_degrees=90), rotation=1.0)
    assert turned == pytest.approx(np.rot90(ramp()[:, :, 0], 1), abs=1e-4) or turned == pytest.approx(
        np.rot90(ramp()[:, :, 0], -1), abs=1e-4
    )


def test_windows_have_the_area_and_aspect_that_were_drawn():
    # 400 x 400; area drawn in the middle of 8 to 100 % = 54 %, square: side sqrt(0.54) x 400 = 293.9.
    assert crop_window(numbers(), 0.08, 400, 400).numpy().tolist() == [53, 53, 294, 294]
    # The smallest area, 8 % of 400 x 400 = 12800, at 4:3: 130.6 wide, 98.0 high, at the top left.
    smallest = numbers(crop_area=0.0, crop_aspect=1.0, crop_x=0.0, crop_y=0.0)
    assert crop_window(smallest, 0.08, 400, 400).numpy().tolist() == [0, 0, 98, 131]


def test_windows_stay_inside():
    for values in draws(200, 0, 0):
        top, left, height, width = crop_window(tf.constant(values), 0.08, 37, 300).numpy()
        assert 0 <= top <= 37 - height
        assert 0 <= left <= 300 - width
        assert height >= 1
        assert width >= 1


def test_draws_follow_from_seed_and_epoch():
    assert np.array_equal(draws(5, 1, 2), draws(5, 1, 2))
    assert not np.array_equal(draws(5, 1, 2), draws(5, 1, 3))
    assert not np.array_equal(draws(5, 1, 2), draws(5, 2, 2))


def test_wrong_amounts_are_refused():
    with pytest.raises(ConfigError, match=r"augmentation.shift_fraction=5: must be 0 to 1"):
        check_section(Augmentation(shift_fraction=5), "dataset.augmentation.")
    with pytest.raises(ConfigError, match=r"augmentation.fill=mirror: allowed are nearest, zero"):
        check_section(Augmentation(fill="mirror"), "dataset.augmentation.")
