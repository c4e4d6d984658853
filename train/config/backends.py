"""What joins the ranks, by `distribution.backend`: what each backend is, and which keys it allows no other value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# Key of `distribution` -> the values that a backend allows, and why no others.
Needs = Mapping[str, tuple[tuple[Any, ...], str]]


@dataclass(frozen=True)
class Backend:
    """What the kit must know of a backend before it imports it."""

    rounds: bool = True  # groups of its ranks can exchange by themselves
    needs: Needs = field(default_factory=dict)


def _strategy(name: str, backend: str, **more: tuple[tuple[Any, ...], str]) -> Needs:
    """What every strategy of TensorFlow needs, and more."""
    cannot, given = f"{name} cannot", f"with backend={backend}"
    return {
        "elastic": ((False,), f"{cannot} go on with other ranks; {given} set false"),
        "compression": (("none",), f"{cannot} compress gradients; {given} set none"),
        "op": (("average",), f"{cannot} combine gradients by Adasum; {given} set average"),
        "autotune": ((False,), f"it is Horovod's; {given} set false"),
        "controller": (
            ("gloo",),
            f"backend={backend} needs gloo: its launcher starts the ranks, and tells them of others",
        ),
        **more,
    }


BACKENDS = {
    "horovod": Backend(),
    "mwms": Backend(
        rounds=False,
        needs=_strategy(
            "MultiWorkerMirroredStrategy",
            "mwms",
            gradients=(("grouped", "flat"), "with backend=mwms allowed are grouped (TensorFlow's own way), flat"),
        ),
    ),
    "ps": Backend(
        rounds=False,
        needs=_strategy(
            "ParameterServerStrategy",
            "ps",
            allreduce=((True,), "with backend=ps there is none to leave out; set true, or take another backend"),
            gradients=(("separate",), "servers take gradients variable by variable; with backend=ps set separate"),
        ),
    ),
    "none": Backend(),
}
