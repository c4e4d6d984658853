"""How runs were made, as names and values, and in what two sets of runs differ."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any

from analysis.documents import about
from common.grouping import gathered
from record.schema import RunRecord

# Keys on which no measurement depends, and what differs in each launch: the batch job, and the addresses of the ranks.
_NOT_COMPARED = ("configuration.results", "configuration.tracking.", "configuration.launcher.timeout_s",
                 "environment.variables.SLURM_", "environment.variables.PBS_", "environment.variables.LSB_",
                 "environment.variables.HOROVOD_GLOO_RENDEZVOUS_", "environment.variables.TF_CONFIG")  # fmt: skip
_MOST_SHOWN = 6
Details = Mapping[str, str]


@dataclass(frozen=True)
class Difference:
    """A setting in which runs differ from those that they are compared with."""

    what: Annotated[str, about("the name of what differs")]
    reference: Annotated[str, about("in the runs they are compared with")]
    measured: str
    experiments: Annotated[str, about("that it holds for; empty: all")] = ""


@dataclass(frozen=True)
class Provenances:
    """The provenance of the launches: lists, as they may differ; "" if a record does not say."""

    commit: Annotated[list[str], about("of the kit, seven digits; with + where files were changed")]
    driver: Annotated[list[str], about("of the GPUs")]
    kernel: Annotated[list[str], about("of the hosts")]
    image: Annotated[list[str], about("digest")]
    versions: Annotated[dict[str, list[str]], about("name of each package -> its versions")]


def provenance(run: RunRecord) -> Provenances:
    """Return the commit and software of a run."""
    env = run.environment
    if env is None:
        return Provenances([""], [""], [""], [""], {})
    drivers = sorted({gpu.driver for host in env.hosts if host.state for gpu in host.state.gpus})
    kernels = sorted({host.kernel for host in env.hosts})
    commit = (env.git_commit or "")[:7] + ("+" if env.git_dirty else "")
    image = (env.image_digest or "").removeprefix("sha256:")[:12]
    versions = {name: [version] for name, version in sorted(env.versions.items())}
    return Provenances([commit], [", ".join(drivers)], [", ".join(kernels)], [image], versions)


def merged(provenances: Iterable[Provenances]) -> Provenances:
    """Return the values of several provenances."""
    several = [*provenances]
    lists = {name: sorted({value for one in several for value in getattr(one, name)})
             for name in ("commit", "driver", "kernel", "image")}  # fmt: skip
    packages = sorted({name for one in several for name in one.versions})
    versions = {name: sorted({v for one in several for v in one.versions.get(name, ())}) for name in packages}
    return Provenances(**lists, versions=versions)


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield the leaves of nested values with their path; the elements of a list share its name."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list):
        for inner in value:
            yield from _flat(inner, name)
    else:
        yield name, "none" if value is None else str(value)


def details(run: RunRecord) -> dict[str, str]:
    """Return how a run was made, as flat names and values: configuration, environment, cores per rank, day."""
    values: dict[str, set[str]] = defaultdict(set)
    content = {
        "configuration": run.config,
        "environment": asdict(run.environment) if run.environment else {},
        "cores bound to a rank": [len(rank.cores) // rank.workers for rank in run.ranks],
        "day": run.started_at[:10],
    }
    for name, value in _flat(content):
        if not name.startswith(_NOT_COMPARED):
            values[name].add(value)
    return {name: ", ".join(sorted(values)) for name, values in values.items()}


def values(runs: Iterable[Details], name: str) -> str:
    """Return the distinct values of one name of `details`, or how many there are."""
    distinct = {run.get(name, "none") for run in runs}
    if len(distinct) > _MOST_SHOWN:
        return f"{len(distinct)} values"
    numbers = sorted((value for value in distinct if value.isdigit()), key=int)
    return " | ".join([*numbers, *sorted(distinct - {*numbers})])


def differences(reference: Sequence[Details], measured: Sequence[Details]) -> list[Difference]:
    """Return each name of `details` in which two sets of runs differ, with the values of each set."""
    differing = []
    for name in dict.fromkeys(name for runs in (reference, measured) for run in runs for name in run):
        left, right = ({run.get(name, "none") for run in runs} for runs in (reference, measured))
        if left != right:
            differing.append(Difference(name, values(reference, name), values(measured, name)))
    return differing


def by_experiment(reference: Mapping[str, list[Details]], measured: Mapping[str, list[Details]]) -> list[Difference]:
    """Return the differences of two sets of runs by experiment, each once, with the experiments that have it."""
    experiments = gathered(
        (difference, experiment)
        for experiment in reference
        for difference in differences(reference[experiment], measured.get(experiment, []))
    )
    return [replace(difference, experiments=", ".join(names)) for difference, names in experiments.items()]
