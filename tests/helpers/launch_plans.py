"""Plans and jobs for tests of the launcher."""

from pathlib import Path

from train.launch.job import Exchange, Job, Nodes
from train.launch.launchers.base import Machine
from train.launch.plan.make_plan import Plan, expand
from train.launch.plan.planned_runs import PlannedPoint


def make_plan(*overrides: str, cores: int = 2, no_quotas: str | None = "no control groups") -> Plan:
    """Return the plan of an experiment on a machine of so many cores. no_quotas: why it has no CPU quotas, or None."""
    return expand(overrides, Machine(cores, no_quotas))


def plan_points(*overrides: str, cores: int = 2, no_quotas: str | None = "no control groups") -> list[PlannedPoint]:
    """Return the points of that plan."""
    return list(make_plan(*overrides, cores=cores, no_quotas=no_quotas).points)


def job(controller: str = "gloo", nodes: int = 2, ranks_per_node: int = 1, folder: Path = Path("/r")) -> Job:
    """Return a job on this machine, which sets one environment variable."""
    return Job(
        argv=("python", "-m", "train", "--run-dir", "/r/weak_scaling/resnet50-nodes2/0a1b2c3d/r0"),
        folder=folder,
        nodes=Nodes(("localhost",) * nodes, ranks_per_node),
        exchange=Exchange(controller),
        env={"KIT_EXAMPLE": "1"},
    )
