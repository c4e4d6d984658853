import numpy as np
import pytest

from train.datasets.built_in import read_digits

pytestmark = pytest.mark.slow


def test_the_file_is_read_as_scikit_learn_reads_it():
    from sklearn.datasets import load_digits

    for ours, theirs in zip(read_digits(), load_digits(return_X_y=True), strict=True):
        np.testing.assert_array_equal(ours, theirs)
        assert ours.dtype == theirs.dtype
