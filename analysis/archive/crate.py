"""The `ro-crate-metadata.json` of an archive: its files and the runs that made them, as a Process Run Crate.

https://w3id.org/ro/wfrun/process/0.5. It tells other programs what the records contain: each
launch is an action, with its program, its beginning and end, and its record.
"""

import json
import mimetypes
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from rocrate.model import ContextEntity, SoftwareApplication
from rocrate.rocrate import ROCrate

from record.schema import RunRecord

NAME = "ro-crate-metadata.json"
PROFILE = "https://w3id.org/ro/wfrun/process/0.5"
LICENCE = "https://spdx.org/licenses/Apache-2.0"
_TITLE = "Run records of the Horovod scaling kit, and the figures drawn from them"
_ABOUT = (
    "Records of training runs with Horovod: every step time of every rank, and how each run was made. Figures, their "
    "data and a page show them beside the numbers of five published reports."
)
_TYPES = {".jsonl": "application/jsonl", ".md": "text/markdown", ".csv": "text/csv", ".gz": "application/gzip"}


def metadata(files: Iterable[str], records: Mapping[str, RunRecord]) -> bytes:
    """Return the metadata of an archive: the same files and records give the same bytes.

    files: all paths in it except its manifest; records: the run records among them, by path.
    """
    crate = ROCrate(version="1.1")
    crate.name, crate.description, crate.license = _TITLE, _ABOUT, LICENCE
    crate.datePublished = datetime.fromisoformat(max(run.started_at for run in records.values()))
    crate.root_dataset["conformsTo"] = {"@id": PROFILE}
    profile = {"@type": "CreativeWork", "name": "Process Run Crate", "version": "0.5"}
    crate.add(ContextEntity(crate, PROFILE, properties=profile))
    crate.add(ContextEntity(crate, LICENCE, properties={"@type": "CreativeWork", "name": "Apache License 2.0"}))
    entities = {
        name: crate.add_file(dest_path=name, properties=_file(name, records.get(name))) for name in sorted(files)
    }
    programs: dict[str, SoftwareApplication] = {}
    for name in sorted(records):
        run = records[name]
        program = programs.get(_commit(run)) or programs.setdefault(_commit(run), _program(crate, run))
        paths = sorted(f"{name.rpartition('/')[0]}/{attachment}" for attachment in run.attachments)
        attachments = [entities[path] for path in paths if path in entities]
        crate.add_action(program, f"#{name}", result=[entities[name], *attachments], properties=_launch(run))
    _add_analysis(crate, entities, records, programs)
    text = json.dumps(crate.metadata.generate(), indent=1, sort_keys=True, ensure_ascii=False)
    return f"{text}\n".encode()


def _file(name: str, run: RunRecord | None) -> dict[str, Any]:
    suffix = Path(name).suffix
    properties: dict[str, Any] = {"encodingFormat": _TYPES.get(suffix) or mimetypes.guess_type(name)[0] or "text/plain"}
    if run:
        properties["name"] = f"record of {run.experiment}, {run.point}, launch {run.repeat}"
        properties["description"] = f"{run.status}; {run.workers} ranks; configuration {run.config_hash[:8]}"
    elif name == "report.html":
        properties["name"] = "the records beside the numbers of five reports, as one page"
    elif name.startswith("figures/timeline-"):
        properties["name"] = "what happened within the steps of a launch, on all ranks, as Chrome's trace events"
    else:
        properties["name"] = name.rpartition("/")[2]
    return properties


def _commit(run: RunRecord) -> str:
    """Return the commit that ran, with + if files were changed."""
    env = run.environment
    return ((env.git_commit or "") + ("+" if env.git_dirty else "")) if env else ""


def _program(crate: ROCrate, run: RunRecord) -> SoftwareApplication:
    """Return the kit at the commit of a run, with its packages; each once."""
    commit = _commit(run)
    versions = run.environment.versions if run.environment else {}
    packages = [_package(crate, name, version) for name, version in sorted(versions.items())]
    properties = {
        "name": "Horovod scaling kit",
        "softwareVersion": commit or "not known",
        "softwareRequirements": packages,
    }
    return crate.add(SoftwareApplication(crate, f"#kit-{commit or 'unknown'}", properties=properties))


def _package(crate: ROCrate, name: str, version: str) -> ContextEntity:
    id = f"#{name}-{version}"
    package = crate.dereference(id)
    properties = {"name": name, "softwareVersion": version}
    return package or crate.add(SoftwareApplication(crate, id, properties=properties))


def _launch(run: RunRecord) -> dict[str, Any]:
    """Return the properties of a launch: its command, when it ran, and how it ended."""
    began = datetime.fromisoformat(run.started_at)
    properties: dict[str, Any] = {
        "name": f"{run.experiment}: {run.point}, launch {run.repeat}",
        "description": " ".join(run.command),
        "startTime": began.isoformat(),
        "endTime": (began + timedelta(seconds=run.job_s)).isoformat(timespec="milliseconds"),
        "actionStatus": {"@id": f"http://schema.org/{'Failed' if run.failure else 'Completed'}ActionStatus"},
    }
    if run.failure:
        properties["error"] = run.failure.reason
    return properties


def _add_analysis(
    crate: ROCrate, entities: Mapping[str, Any], records: Mapping[str, RunRecord], programs: Mapping[str, Any]
) -> None:
    """Add the action that made figures and page from the records."""
    newest = max(records.values(), key=lambda run: run.started_at)
    results = [file for name, file in entities.items() if name == "report.html" or name.startswith("figures/")]
    properties = {"name": "figures and page from the records", "description": "python -m analysis bundle"}
    crate.add_action(
        programs[_commit(newest)], "#analysis", object=[entities[name] for name in sorted(records)], result=results,
        properties=properties,
    )  # fmt: skip
