"""Run records with known step times, in the layout in which the launcher writes them."""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path

from train.record import record
from train.record.record import Environment, Epoch, Host, Rank, RunRecord, Usage

# Seconds; 'timed' and 'warm_up' follow from the step times.
PHASES_S = {
    "start": 0.5,
    "import": 3.0,
    "init": 0.5,
    "data": 0.1,
    "build": 2.0,
    "broadcast": 0.4,
    "first_step": 6.0,
    "evaluate": 0.0,
    "checkpoint": 0.0,
    "exit": 0.5,
}
CPU = "AMD EPYC 9B45"


def make_record(
    experiment: str = "weak_scaling",
    model: str = "resnet50",
    nodes: int = 1,
    ranks_per_node: int = 1,
    step_s: float = 0.5,
    batch_per_rank: int = 8,
    steps: int = 4,
    repeat: int = 0,
    generation: int = 0,
    warm_up_steps: int = 2,
    failure: record.Failure | None = None,
    epochs: list[Epoch] | None = None,
    losses: list[float] | None = None,
    of_model: dict[str, object] | None = None,
    **config: object,
) -> RunRecord:
    """A run whose steps all took `step_s`, so that images_per_s is global_batch / step_s."""
    ranks = nodes * ranks_per_node
    values = {
        "experiment": experiment,
        "model": of_model or {"name": model},
        "dataset": {"name": "synthetic"},
        "device": "cpu",
        "system": {"name": "laptop", "cores_per_node": 1},
        "nodes": nodes,
        "ranks_per_node": ranks_per_node,
        "threads_per_rank": None,
        "batch_per_rank": batch_per_rank,
        "global_batch": batch_per_rank * ranks,
        "precision": "fp32",
        "optimizer": {"name": "sgd", "learning_rate": 0.01, "learning_rate_scaling": "none"},
        "distribution": {"backend": "horovod", "allreduce": True, "controller": "gloo"},
        "measure": {"name": "quick", "warm_up_steps": warm_up_steps, "timed_steps": steps, "repeats": 3},
        "seed": 0,
        **config,
    }
    phases = PHASES_S | {"warm_up": warm_up_steps * step_s, "timed": steps * step_s}
    if epochs:  # such training has no warm-up
        del phases["warm_up"]
    phases = {name: phases[name] for name in record.PHASES if name in phases}
    made = [
        Rank(i, i % ranks_per_node, i // ranks_per_node, "host0", [i], None, dict(phases), [step_s] * warm_up_steps,
             [step_s] * steps, 2**30)
        for i in range(ranks)
    ]  # fmt: skip
    if epochs:
        for rank in made:  # half of its core, and one GiB
            rank.usage = Usage([5.5, 6.5, 7.5], [1.0, 1.5, 2.0], [2**30] * 3, [None] * 3, [None] * 3)
    host = Host("host0", CPU, 4, 8 * 2**30, "6.1", [])
    return RunRecord(
        experiment=experiment,
        point=f"{model}_nodes={nodes}",
        repeat=repeat,
        generation=generation,
        config_hash=hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest(),
        config=values,
        status="failed" if failure else "complete",
        failure=failure,
        started_at="2026-11-20T12:00:00Z",
        command=["python", "-m", "train"],
        job_s=sum(phases.values()),
        cores_shared=False,
        ranks=made,
        environment=Environment(
            [host], {"tensorflow": "2.18.1"}, ["gloo"], None, None, None, None, "0" * 40, False, {}
        ),
        losses=losses or [],
        epochs=epochs or [],
    )


def save(run: RunRecord, results: Path) -> Path:
    """Write the record where the launcher would; its path."""
    name = f"r{run.repeat}" + (f"g{run.generation}" if run.generation else "")
    path = results / run.experiment / run.point / run.config_hash[:8] / name / record.RECORD_NAME
    record.write_atomically(path, record.dumps(run))
    return path


@dataclass
class Results:
    """A results folder that a test fills."""

    folder: Path
    paths: list[Path] = field(default_factory=list)

    def add(self, **run: object) -> Path:
        """Save the record that `make_record` makes of the arguments."""
        self.paths.append(save(make_record(**run), self.folder))  # type: ignore[arg-type]
        return self.paths[-1]
