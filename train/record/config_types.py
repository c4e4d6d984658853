"""The types and ranges of the values of a recorded configuration that a reader computes with.

A record may come from anybody. Keys that are missing here or there are not checked: records of older kits lack some.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

# So many of anything at most: what is repeated or listed by a number of a record ends.
Count = Annotated[int, Meta(ge=0, le=1_000_000)]
_Size = Annotated[int, Meta(ge=0, le=2**53)]  # of images, parameters, bytes
_Number = Annotated[float, Meta(ge=0, le=1e15)]
_Name = Annotated[str, Meta(max_length=1000)]
Swept = dict[str, str | int | float | bool | list[Any] | None]


class _Named(msgspec.Struct):
    name: _Name = ""


class _Model(_Named):
    image_size: Count | None = None
    parameters: _Size | None = None


class _Distribution(msgspec.Struct):
    backend: _Name = ""
    allreduce: bool = True
    controller: _Name = ""
    gradients: _Name = ""
    cycle_time_ms: _Number | None = None
    backward_passes_per_step: Count = 1
    elastic: bool = False
    timeline: bool = False
    servers: Count = 1
    servers_on: _Name = ""


class _Measure(_Named):
    warm_up_steps: _Size = 0
    timed_steps: _Size = 0
    repeats: Count = 0
    total_steps: _Size | None = None
    epochs: Count = 0
    budget_s: _Number | None = None
    compete: bool = False


class _Launcher(_Named):
    flat_within_fraction: _Number = 0.0


class _System(_Named):
    cores_per_node: Count | None = None
    cpus_per_node: _Number | None = None
    link_mbit_per_s: _Number | None = None


class _Arm(msgspec.Struct):
    name: _Name
    nodes: Count
    ranks: Count
    batch_per_rank: Count
    arm: _Name | None = None
    allreduce: bool = True
    swept: Swept = {}
    world: Count = 0
    link_mbit_per_s: _Number | None = None
    reads: bool = False
    backward_passes_per_step: Count = 1


class _World(msgspec.Struct):
    settings: dict[str, Any]
    first_rank: Count
    ranks: Count


class _AllreduceSweep(msgspec.Struct):
    rounds: Count = 0


class _Config(msgspec.Struct):
    model: _Model | None = None
    dataset: _Named | None = None
    optimizer: _Named | None = None
    distribution: _Distribution = msgspec.field(default_factory=_Distribution)
    measure: _Measure = msgspec.field(default_factory=_Measure)
    launcher: _Launcher = msgspec.field(default_factory=_Launcher)
    container: _Named | None = None
    system: _System = msgspec.field(default_factory=_System)
    tracking: _Named | None = None
    device: _Name = ""
    precision: _Name = ""
    nodes: Count = 1
    ranks_per_node: Count = 1
    threads_per_rank: Count | None = None
    batch_per_rank: Count | None = None
    global_batch: _Size | None = None
    seed: Annotated[int, Meta(ge=-(2**53), le=2**53)] = 0  # a column of the table is read as floating point
    rounds: list[_Arm] | None = None
    worlds: list[_World] | None = None
    worlds_at_once: bool = False
    allreduce_sweep: _AllreduceSweep | None = None
    assumed: list[_Name] = []
    derived: list[_Name] = []


def check(config: dict[str, Any]) -> None:
    """Raise msgspec.ValidationError, which names the key, where a value is of another type or out of its range."""
    msgspec.convert(config, _Config)
