"""A launch with a timeline, in round numbers."""

import gzip
import hashlib
import json
from dataclasses import replace
from pathlib import Path

from analysis.timeline import TracedLaunch, load_launch
from record import protocol
from record import schema as record
from record.schema import RankTimeline, StepAt
from tests.helpers.run_records import make_record, save

BEGAN_S = 1000.0  # start of each rank's process, by rank 0's clock; the job was launched half a second earlier
STEPS = 8
AHEAD_S = 5.0  # of rank 0's clock, relative to the clock of rank 1's host
# Seconds after the begin of a step. Rank 0 computes until 0.5, rank 1 until 0.6, the step ends at 1.0.
NEGOTIATION, OPERATION, WIRE = (0.51, 0.62), (0.62, 0.90), (0.65, 0.88)


def begin_s(step: int) -> float:
    """Return when a step begins, by rank 0's clock. The first step and two of the warm-up precede the timed ones."""
    return BEGAN_S + 20.0 + step


def horovod_events(steps: int = STEPS + 3) -> list[dict]:
    """Return the events that Horovod writes from second 999.9 on, for one tensor that Gloo exchanges in each step."""
    epoch = {"name": "process_name", "ph": "M", "pid": 0, "args": {"start_time_since_epoch_in_micros": 999_900_000}}
    gradients = {"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "gradients"}}
    variable = {"name": "process_name", "ph": "M", "pid": 2, "args": {"name": "a variable"}}
    broadcast = [{"ph": "B", "name": "BROADCAST", "ts": 2_000_000, "pid": 2}, {"ph": "E", "ts": 2_500_000, "pid": 2}]
    events: list[dict] = [epoch, gradients, variable, *broadcast]

    def us(step: int, after_s: float) -> int:
        return round(1e6 * (begin_s(step) + after_s - 999.9))

    for step in range(steps):
        for name, (begin, end) in (("NEGOTIATE_ALLREDUCE", NEGOTIATION), ("ALLREDUCE", OPERATION)):
            events.append({"ph": "B", "name": name, "ts": us(step, begin), "pid": 1})
            if name == "ALLREDUCE":
                events.append({"ph": "B", "name": "GLOO_ALLREDUCE", "ts": us(step, WIRE[0]), "pid": 1})
                events.append({"ph": "E", "ts": us(step, WIRE[1]), "pid": 1})
            elif step == 0:  # not cached yet
                events += [{"ph": "X", "name": str(rank), "ts": us(0, at), "pid": 1, "dur": 0}
                           for rank, at in enumerate((0.51, 0.6))]  # fmt: skip
            events.append({"ph": "E", "ts": us(step, end), "pid": 1})
    return events


def load(path: Path) -> TracedLaunch:
    """Load the launch whose record is at `path`."""
    return load_launch(path, record.load(path))


def launch_with_timeline(results: Path, model: str = "resnet50", separate_hosts: bool = True, **fields) -> Path:
    """Save a launch of two ranks; return the path of its record. separate_hosts: rank 1's host has another clock."""
    distribution = {"backend": "horovod", "allreduce": True, "controller": "gloo", "gradients": "flat"}
    distribution |= {"cycle_time_ms": 20.0, "timeline": True}
    run = make_record("timeline", model, nodes=2, steps=STEPS, step_s=1.0, distribution=distribution, **fields)
    files = {"horovod-timeline.json": json.dumps(horovod_events()).encode()}
    phases = ["first_step", "warm_up", "warm_up", *["timed"] * STEPS]
    for rank in run.ranks:
        offset_s = AHEAD_S if separate_hosts and rank.rank else 0.0
        rank.host = f"host{rank.rank}" if separate_hosts else "host0"
        steps = [
            StepAt(phase, at := begin_s(n) - offset_s, at + 0.5 + 0.1 * rank.rank, at + 1.0)
            for n, phase in enumerate(phases)
        ]
        rank.timeline = RankTimeline(BEGAN_S - offset_s, offset_s, 0.0002 if offset_s else 0.0, steps)
        profile = {"began_at": begin_s(12) - offset_s, "operations": [["worker", "Conv2D", 10.0, 300.0]]}
        files[f"operations-{rank.rank}.json.gz"] = gzip.compress(json.dumps(profile).encode(), mtime=0)
    if separate_hosts and run.environment:
        run.environment.hosts = [replace(run.environment.hosts[0], host=rank.host) for rank in run.ranks]
    run.attachments = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    path = save(run, results)
    for name, content in files.items():
        (path.parent / name).write_bytes(content)
    assert protocol.timeline_paths(path.parent)
    return path
