from analysis.audit.words import at, called
from tests.helpers.tidy_rows import row


def test_a_point_is_called_by_what_is_known_of_it():
    assert called(row("images_per_s", 100, 4)) == "resnet50, imagenet, P100, batch 64, 4 ranks"
    assert called(row("images_per_s", 100, None, batch=None, gpu="")) == "resnet50, imagenet"
    assert at(row("images_per_s", 100, 1, model="")) == "figure 1: imagenet, P100, batch 64, 1 rank"
