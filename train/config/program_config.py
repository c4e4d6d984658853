"""A user's own program: a section of the configuration."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from record.recorded_config import has_batch
from train.config import printed, program
from train.config.checks import Rule, allow


@dataclass(frozen=True)
class ProgramConfig:
    """A user's own command, which the kit starts and whose printed rate it records (docs/program.md)."""

    name: str  # stands for a model in tables and figures
    command: str  # with placeholders (train/config/program.py); no shell reads it
    rate: str | None = None  # a pattern with {rate}, the rate of the whole job; null, and no time: a known log
    time: str | None = None  # a pattern with {time}, of a step or of the whole run
    time_of: str = field(default="step", metadata=allow(names=("step", "run")))
    unit: str | None = None  # of the rate, as tokens/s; of the time, as ms, if none is printed after it
    # Whether each rank adds work, or all share one problem; null: the batch in the command decides.
    scaling: str | None = field(default=None, metadata=allow(names=("weak", "strong"), null="what its batch says"))
    pick: str | None = field(default=None, metadata=allow(names=tuple(printed.PICKS), null="one rate is printed"))
    skip: int = field(default=0, metadata=allow(minimum=0))  # the first rates, as warm-up
    decimal: str | None = field(default=None, metadata=allow(names=(".", ","), null="as the number shows"))
    each_rank: bool | None = field(default=None, metadata=allow(null="not stated"))  # it is the rate of one rank
    confirmed: str | None = None  # the code with which the user confirms what was read (record/clock.py)
    file: str | None = None  # with the number, which the program writes where it runs; null: its output
    exit_status: int = field(default=0, metadata=allow(minimum=0, maximum=255))  # of a success
    until: str | None = None  # a regular expression: after a line that it matches the program is ended
    until_s: float | None = field(default=None, metadata=allow(above=0, unit="s", null="its end"))
    folder: str | None = None  # where it runs; null: the folder of the launch
    version: str | None = None  # a command whose first line of output is recorded
    problem: str | None = None  # what it computes, in words, for a proposal
    here: str = ""  # the folder that {here} stands for; "": that of the kit

    def rules(self) -> Iterator[Rule]:
        """Yield that the commands and the patterns have no problem, and that the kind of scaling is known."""
        yield not (why := program.command_problem(self.command)), "command", why
        if self.version is not None:
            yield not (why := program.command_problem(self.version)), "version", why
        key = "time" if self.rate is None else "rate"
        yield not (why := printed.problem(self.rate, self.time)), key, why
        yield not (why := program.pattern_problem(self.until)), "until", why
        asked = (
            "the command has no {batch_per_rank} and no {global_batch}: ARGS=program.scaling=weak if each rank adds "
            "work of its own, ARGS=program.scaling=strong if all ranks share one problem"
        )
        yield self.scaling is not None or has_batch(self.command), "scaling", asked
        asked = "how many steps a run has is not known: ARGS=program.scaling=weak if each rank adds work, or strong"
        yield self.scaling is not None or self.time is None or self.time_of != "run", "scaling", asked

    def rules_with(self, run: Any) -> Iterator[Rule]:
        """Yield that each launch runs one point, on whole cores."""
        yield run.measure.design == "launches", "measure.design", "a program needs launches: each runs one point"
        why = "nodes share cores, and a program cannot be limited to a part of one; take at most one node a core"
        yield run.system.cpu_quota_per_node is None, "system.cpu_quota_per_node", why
