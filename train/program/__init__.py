"""A user's own program: started once for all ranks of a point, and recorded with the rate that it prints."""

from record.recorded_config import has_batch
from record.this_kit import ROOT
from train.config.printed import Reading
from train.config.program import host_slots
from train.config.run_config import RunConfig

_SEED_STEP = 1000  # seeds for each seed of the experiment, so that launches with different ones share none


def placeholder_values(config: RunConfig, hosts: tuple[str, ...], repeat: int) -> dict[str, object]:
    """Return the values of the placeholders."""
    return {
        "ranks": config.ranks,
        "nodes": config.nodes,
        "ranks_per_node": config.ranks_per_node,
        "hosts": host_slots(hosts, config.ranks_per_node),
        "host_names": ",".join(dict.fromkeys(hosts)),
        "threads": config.threads_per_rank or 1,
        "cores": config.nodes * (config.system.cores_per_node or 1),
        "batch_per_rank": config.batch_per_rank,
        "global_batch": config.global_batch,
        "seed": config.seed * _SEED_STEP + repeat,
        "here": config.program.here or ROOT if config.program else ROOT,
    }


def reading(config: RunConfig) -> Reading:
    """Return how the rate of this configuration is read from the output of its program.

    Only a batch in the command tells the work of a step; nothing tells how many steps a run has. Else a rank adds a
    unit of work in weak scaling, and all ranks share one in strong scaling.
    """
    program = config.program
    assert program is not None
    weak = program.scaling == "weak"
    known = has_batch(program.command) and not (program.time and program.time_of == "run")
    counted = "images" if known else f"{'rank-' if weak else ''}{program.time_of}s"
    return Reading(
        **{name: getattr(program, name) for name in ("rate", "time", "unit", "pick", "skip", "decimal", "each_rank")},
        ranks=config.ranks,
        step_work=float(config.global_batch or 1) if known else float(config.ranks if weak else 1),
        work_unit=counted,
    )
