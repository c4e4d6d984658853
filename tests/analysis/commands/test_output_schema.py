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


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """Records of every kind."""
    return fill(Results(tmp_path_factory.mktemp("own") / "results")).folder


@pytest.mark.slow
def test_commands_over_records_of_every_kind(json_output, records):
    for experiment in ("weak_scaling", "fixed_work", "overhead", "caltech256", "allreduce_bench", "network_sweep"):
        assert json_output("summary", experiment, "--results", records)
    assert json_output("compare", "--results", records)["comparisons"]
    assert json_output("compare", f"A={records}", f"B={records}")["comparisons"]
    (curve, *_) = json_output("explain", "--experiment", "fixed_work", "--results", records)["curves"]
    assert curve["phases"]
    document = json_output("audit", records)
    assert {finding["report"] for finding in document["findings"]} == {"000", "001", "003", "004", "local"}
    assert len(json_output("claims")) == 74
