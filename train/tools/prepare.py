"""Check what ranks need before they start: a readable dataset that is large enough, and pretrained weights.

`python -m train.launch` runs this once per experiment, in a separate process because it loads TensorFlow:

    python -m train.tools.prepare dataset=fruit dataset.data_dir=/data/fruit nodes=2 weights=imagenet

Prints a description of the input. The exit status is 0, or 2 if the ranks would fail; standard error has the reason.
"""

from common.terminal import show
from train.config.compose import load
from train.config.run_config import RunConfig
from train.datasets import DATASETS
from train.input.reader import Reader
from train.loop import weights
from train.tools import tensorflow_main


def prepare(config: RunConfig) -> list[str]:
    """Return a description of the input of a run's ranks. Raises ConfigError if they could not read it."""
    lines = []
    if config.dataset.files:
        data = DATASETS[config.dataset.name](config, 0)
        assert isinstance(data, Reader)
        parts = data.parts
        lines = [
            f"{config.dataset.name} in {config.dataset.data_dir}: {parts.training.samples:,} training and "
            f"{parts.validation.samples:,} validation samples",
            *parts.notes,
        ]
    if config.weights != weights.NONE:
        lines.append(weights.fetched_weights(config))
    return lines


def run(overrides: list[str]) -> int:
    """Check the inputs of the run that the overrides describe, and print a description of them."""
    show(*prepare(load(overrides)))
    return 0


if __name__ == "__main__":
    tensorflow_main("train.tools.prepare", __doc__, "Hydra overrides, as those of python -m train", run)
