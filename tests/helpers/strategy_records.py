"""Records of strategies in round numbers: launches of Horovod, of another strategy, and of one rank alone."""

from pathlib import Path

from tests.helpers.limited_records import limited
from tests.helpers.own_records import make_record, save

# Seconds of a step, and until the local gradients of its ranks are ready; the update takes 0.02 s.
STEPS_S = {
    "horovod": (0.5, (0.42, 0.45)),
    "mwms": (0.7, (0.43, 0.46)),
    "one-rank-alone": (0.4, (0.38,)),
}
BACKENDS = {"horovod": "horovod", "mwms": "mwms", "one-rank-alone": "none"}
DRIFT = (1.0, 1.1, 0.9, 1.05, 1.2, 0.95)  # of the machine, from repeat to repeat


def strategies(results: Path) -> None:
    """Save six repeats of each arm, 8 images a rank."""
    for repeat, drift in enumerate(DRIFT):
        for arm, (step_s, ready_s) in STEPS_S.items():
            backend = BACKENDS[arm]
            distribution = {"backend": backend, "allreduce": backend != "none", "controller": "gloo"}
            distribution |= {"gradients": "grouped" if backend == "mwms" else "flat"}
            made = make_record(
                "strategies", nodes=len(ready_s), step_s=step_s * drift, repeat=repeat, arm=arm,
                distribution=distribution, arm_keys=["distribution", "nodes"],
            )  # fmt: skip
            made.point = f"resnet50-nodes{len(ready_s)}-{arm}"
            for rank, ready in zip(made.ranks, ready_s, strict=True):
                rank.compute_times_s = [ready * drift] * len(rank.step_times_s)
            save(limited(made), results)
