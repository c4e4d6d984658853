"""Where records are mirrored to: a section of the configuration."""

from dataclasses import dataclass, field

from train.config.checks import allow


@dataclass(frozen=True)
class TrackingConfig:
    """The destination of mirrored records, and which runs are logged while they are in progress."""

    name: str = field(metadata=allow(names=("wandb", "none")))
    project: str
    entity: str | None
    sync: bool  # upload runs that were written offline at the end of an experiment
    # How runs are logged while they train. Offline: nothing connects to a server before `make wandb-sync`.
    mode: str = field(default="offline", metadata=allow(names=("offline", "online")))
    # Log runs while they are in progress, not after the experiment.
    live: bool | None = None  # null: only those that train over epochs
    tags: tuple[str, ...] = ()
    notes: str | None = None
    group: str | None = None  # null: the experiment
