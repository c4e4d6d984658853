"""The types of the documents that commands print with `--format json`, and the JSON Schema of them.

`python -m analysis.commands.output_schema` writes analysis/output.schema.json.
"""

import inspect
import json
from pathlib import Path
from typing import Any

import msgspec

from analysis.commands.audit import Audit
from analysis.commands.diagnose import Diagnosis
from analysis.commands.explain import Explained
from analysis.commands.tune import Tuning
from analysis.compare import Comparisons
from analysis.compare.sessions import History
from analysis.compare.site_reference import ReferenceCheck
from analysis.experiments.allreduce_points import AllreducePoint
from analysis.experiments.summary_points import SummaryPoint
from analysis.judged_claims import JudgedClaim
from analysis.predict.predicted_targets import PredictedTarget
from analysis.timeline.timeline_text import LaunchTimeline

SCHEMA = Path(__file__).parents[1] / "output.schema.json"
# By command; if there are two types, the arguments or the experiment decide.
DOCUMENTS: dict[str, list[Any]] = {
    "audit": [Audit],
    "claims": [list[JudgedClaim]],
    "compare": [Comparisons],
    "explain": [Explained],
    "diagnose": [Diagnosis],
    "timeline": [list[LaunchTimeline]],
    "predict": [list[PredictedTarget]],
    "summary": [list[SummaryPoint], list[AllreducePoint]],
    "tune": [Tuning],
    "history": [History],
    "check_reference": [ReferenceCheck],
}


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of all documents: `$defs` has an entry for each command and each type."""
    types = [kind for kinds in DOCUMENTS.values() for kind in kinds]
    references, defined = msgspec.json.schema_components(types, ref_template="#/$defs/{name}")
    for definition in defined.values():  # Python before 3.13 keeps the indentation of docstrings
        definition["description"] = inspect.cleandoc(definition["description"])
    schemas = iter(references)
    commands = {name: [next(schemas) for _ in kinds] for name, kinds in DOCUMENTS.items()}
    either = {name: any_of[0] if len(any_of) == 1 else {"anyOf": any_of} for name, any_of in commands.items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What `python -m analysis COMMAND --format json` prints: $defs has one entry a command",
        "$defs": either | defined,
    }


if __name__ == "__main__":
    SCHEMA.write_text(json.dumps(json_schema(), indent=1) + "\n")
