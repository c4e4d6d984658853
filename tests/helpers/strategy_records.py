"""Records of strategies in round numbers: launches of Horovod, of other strategies, and of one rank alone."""

from pathlib import Path

from tests.helpers.limited_records import limited
from tests.helpers.own_records import make_record, save
from train.record.record import Server

# Seconds of a step, and until the local gradients of its ranks are ready; the update takes 0.02 s.
STEPS_S = {
    "horovod": (0.5, (0.42, 0.45)),
    "mwms": (0.7, (0.43, 0.46)),
    "ps": (0.6, (0.44, 0.44)),
    "one-rank-alone": (0.4, (0.38,)),
}
BACKENDS = {"horovod": "horovod", "mwms": "mwms", "ps": "ps", "one-rank-alone": "none"}
DRIFT = (1.0, 1.1, 0.9, 1.05, 1.2, 0.95)  # of the machine, from repeat to repeat


def strategies(results: Path, servers: int = 0) -> None:
    """Save six repeats of each arm, 8 images a rank. servers: with that of parameter servers, on nodes of one core."""
    for repeat, drift in enumerate(DRIFT):
        for arm, (step_s, ready_s) in STEPS_S.items():
            if arm == "ps" and not servers:
                continue
            backend = BACKENDS[arm]
            distribution = {"backend": backend, "allreduce": backend != "none", "controller": "gloo"}
            distribution |= {"gradients": "grouped" if backend == "mwms" else "flat"}
            distribution |= {"servers": servers, "servers_on": "nodes"} if arm == "ps" else {}
            made = make_record(
                "strategies", nodes=len(ready_s), step_s=step_s * drift, repeat=repeat, arm=arm,
                role="base" if arm == "horovod" else "point",
                distribution=distribution, arm_keys=["distribution", "nodes"],
            )  # fmt: skip
            made.point = f"resnet50-nodes{len(ready_s)}-{arm}"
            made.servers = [Server(2 + n, f"host{2 + n}", [0], 1) for n in range(servers if arm == "ps" else 0)]
            for rank, ready in zip(made.ranks, ready_s, strict=True):
                rank.compute_times_s = [ready * drift] * len(rank.step_times_s)
            save(limited(made), results)
