"""What is trained, and on which data: sections of the configuration."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from train.config.checks import Rule, allow
from train.models import MODELS


@dataclass(frozen=True)
class ModelConfig:
    """A network, and the sizes that estimates of memory and traffic need."""

    name: str = field(metadata=allow(names=tuple(sorted(MODELS))))
    image_size: int = field(metadata=allow(minimum=8, unit="pixels"))  # height and width
    parameters: int  # trainable and not, at 1000 classes and 3 channels
    activation_bytes_per_image: int  # of one training step in fp32
    # classifier: the dense layers only; the layers below keep their initial weights
    train_layers: str = field(default="all", metadata=allow(names=("all", "classifier")))


@dataclass(frozen=True)
class AugmentationConfig:
    """How training images are varied. Each amount is a maximum; each sample draws uniformly up to it."""

    flip: bool = False  # left to right, with probability 1/2
    # Up to this fraction of the height up or down and of the width left or right, in whole pixels.
    shift_fraction: float = field(default=0.0, metadata=allow(minimum=0, maximum=1))
    zoom_in_fraction: float = field(default=0.0, metadata=allow(minimum=0, maximum=1))  # 0.2: up to 1.2 times larger
    rotation_degrees: float = field(default=0.0, metadata=allow(minimum=0, maximum=180, unit="degrees"))  # either way
    # Pixels from outside the image: nearest (the pixel at the edge) or zero.
    fill: str = field(default="nearest", metadata=allow(names=("nearest", "zero")))
    # Below 1: a random crop of at least this fraction of the area, stretched to the full size.
    crop_area_fraction: float = field(default=1.0, metadata=allow(above=0, maximum=1))


@dataclass(frozen=True)
class DatasetConfig:
    """The data that the ranks read."""

    name: str
    classes: int = field(metadata=allow(minimum=1))
    channels: int = field(metadata=allow(minimum=1))
    # The classes are the integers from 0, such as ages: the error of the expected class is in these units.
    ordered: bool = False
    # The share of the samples that is split off with a fixed seed, if the dataset comes without a split.
    validation_fraction: float = field(default=0.0, metadata=allow(minimum=0, below=1))
    # At most this many, chosen with a fixed seed.
    training_samples: int | None = field(default=None, metadata=allow(minimum=1, null="all"))
    validation_samples: int | None = field(default=None, metadata=allow(minimum=1, null="all"))
    files: bool = False  # read from files below data_dir, which the user provides
    data_dir: str | None = None
    # skip: damaged samples are counted and named in the record
    on_damaged: str = field(default="skip", metadata=allow(names=("skip", "error")))
    augmentation: AugmentationConfig | None = None  # of the training images; null: none

    def rules(self) -> Iterator[Rule]:
        """Yield that a dataset in files has a folder."""
        why = f"give the folder that holds {self.name}, as DATA_DIR=/data/{self.name}; "
        why += "docs/data.md says where to get it and which layout it needs"
        yield bool(self.data_dir) or not self.files, "data_dir", why

    def rules_with(self, run: Any) -> Iterator[Rule]:
        """Yield what synthetic data cannot have."""
        if self.name == "synthetic":
            yield run.measure.epochs == 0, "measure.epochs", "synthetic data has no epochs"
            yield run.optimizer.warm_up_epochs == 0, "optimizer.warm_up_epochs", "synthetic data has no epochs"
            for key in ("training_samples", "validation_samples"):
                yield getattr(self, key) is None, f"dataset.{key}", "synthetic data has no samples; allowed is null"


@dataclass(frozen=True)
class OptimizerConfig:
    """The loss and the update rule, with the usual measures against the effects of large batches.

    The learning rate of a job is learning_rate, scaled with its ranks and backward passes by learning_rate_scaling
    (`record.recorded_config`).
    """

    name: str = field(metadata=allow(names=("sgd", "adam", "adadelta")))
    learning_rate: float = field(metadata=allow(above=0))
    momentum: float = field(metadata=allow(minimum=0, below=1))  # of SGD; Adam's beta_1, Adadelta's rho
    # none | linear (times ranks x backward passes) | sqrt (times its square root)
    learning_rate_scaling: str = field(metadata=allow(names=("none", "linear", "sqrt")))
    # The learning rate rises linearly, step by step, from 1/ranks of its value.
    warm_up_epochs: float = field(default=0.0, metadata=allow(minimum=0, unit="epochs"))
    label_smoothing: float = field(default=0.0, metadata=allow(minimum=0, below=1))  # spread over all classes
    # Decoupled: each step shrinks the weights by learning rate x this; not biases and normalisation.
    weight_decay: float = field(default=0.0, metadata=allow(minimum=0))
