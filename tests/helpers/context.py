"""The context of one rank of a job, as after all ranks have joined."""

import itertools

from record.parts import PartWriter
from record.protocol import RoundsTask
from train.config.run_config import RunConfig
from train.distribution import Distribution, Single
from train.rank.counters import Meter
from train.rank.phases import PhaseClock
from train.rank.quota_gate import QuotaGate
from train.task import Context


class FirstOfTwo(Single):
    """Rank 0 of two; `answer` makes the value of rank 1 from that of rank 0, by default the same."""

    size = 2

    def __init__(self, answer=lambda value: value):
        self._answer = answer

    def gather(self, value, kind):
        """Return the values of both ranks."""
        return [value, self._answer(value)]


def make_context(config: RunConfig, distribution: Distribution | None = None, **fields) -> Context:
    """Return the context of a rank without a run folder. Its clock advances by one second at each reading."""
    part = PartWriter()
    ticks = itertools.count()
    clock = PhaseClock(
        started_at=-1.0,
        listener=lambda phase, seconds: part.add(phase=phase, phases_s=dict(seconds)),
        now=lambda: float(next(ticks)),
    )
    ranks = distribution or Single()
    defaults = {
        "all_ranks": ranks,
        "core_sets": [],
        "gate": QuotaGate(),
        "meter": Meter(),
        "rounds": RoundsTask(),
        "folder": None,
        "checkpoints": None,
        "key": lambda: b"k" * 64,
        **fields,
    }
    return Context(config=config, distribution=ranks, clock=clock, part=part, **({"repeat": 0} | defaults))
