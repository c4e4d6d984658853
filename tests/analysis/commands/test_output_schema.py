"""The schema follows the types, and commands print valid documents over records of every kind."""

import json

import jsonschema
import pytest

from analysis.commands import output_schema
from tests.helpers.run_records import Results
from tests.helpers.studies import fill

WRITE = "run: python -m analysis.commands.output_schema"


def test_the_schema_is_that_of_the_types():
    written = json.loads(output_schema.SCHEMA.read_text())
    jsonschema.Draft202012Validator.check_schema(written)
    assert written == output_schema.json_schema(), WRITE


@pytest.mark.slow
def test_commands_over_kinds_of_records_that_other_tests_of_documents_lack(json_output, tmp_path):
    records = fill(Results(tmp_path / "results")).folder
    for experiment in ("fixed_work", "overhead", "caltech256", "allreduce_bench", "network_sweep"):
        assert json_output("summary", experiment, "--results", records)
    (curve, *_) = json_output("explain", "--experiment", "fixed_work", "--results", records)["curves"]
    assert curve["phases"]
    assert len(json_output("claims")) == 74
