"""The backends that join the ranks (`distribution.backend`), and the values that each requires of other keys."""

from collections.abc import Mapping
from typing import Any

FUSION_THRESHOLD_BYTES = 128 << 20  # Horovod's default

# Key of `distribution` -> the values that a backend allows, and the reason.
Needs = Mapping[str, tuple[tuple[Any, ...], str]]

_LAUNCHED_BY_GLOO = "needs gloo: its launcher starts the ranks, and tells them of others"
_NO_CONTROL = "there is none to leave out; set true, or take another backend"


def _strategy(name: str, backend: str, controller: str, **own_needs: tuple[tuple[Any, ...], str]) -> Needs:
    """Return the needs of a strategy of TensorFlow: its own and those of all. controller: why it needs gloo."""
    cannot, with_it = f"{name} cannot", f"with backend={backend}"
    needs = {
        "compression": (("none",), f"{cannot} compress gradients; {with_it} set none"),
        "op": (("average",), f"{cannot} combine gradients by Adasum; {with_it} set average"),
        "autotune": ((False,), f"it is Horovod's; {with_it} set false"),
        "controller": (("gloo",), f"backend={backend} {controller}"),
    }
    return needs | own_needs


BACKENDS: Mapping[str, Needs] = {
    "horovod": {},
    "mwms": _strategy(
        "MultiWorkerMirroredStrategy",
        "mwms",
        _LAUNCHED_BY_GLOO,
        gradients=(("grouped", "flat"), "with backend=mwms allowed are grouped (TensorFlow's own way), flat"),
    ),
    "ps": _strategy(
        "ParameterServerStrategy",
        "ps",
        _LAUNCHED_BY_GLOO,
        allreduce=((True,), f"with backend=ps {_NO_CONTROL}"),
        gradients=(("separate",), "servers take gradients variable by variable; with backend=ps set separate"),
    ),
    "ps_cpu": _strategy(
        "CentralStorageStrategy",
        "ps_cpu",
        "starts one process, and no ranks that have to join; set gloo, the default",
        allreduce=((True,), f"with backend=ps_cpu {_NO_CONTROL}"),
        gradients=(("separate",), "the CPU averages variable by variable; with backend=ps_cpu set separate"),
        backward_passes_per_step=((1,), "batch normalisation on several devices cannot be in a loop; set 1"),
    ),
    "none": {},
}
