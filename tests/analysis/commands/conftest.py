import json

import jsonschema
import pytest

from analysis.__main__ import main
from analysis.commands import output_schema


@pytest.fixture
def command(capsys):
    """Return a function that runs a command, which must end with `status`, and returns its output."""

    def run(*arguments, status=0):
        assert main([*map(str, arguments)]) == status
        return capsys.readouterr()

    return run


@pytest.fixture
def json_output(command):
    """Return a function that runs a command with --format json and returns its document, checked by the schema."""

    def run(name, *arguments, status=0):
        output = command(name, *arguments, "--format", "json", status=status)
        document = json.loads(output.out, parse_constant=pytest.fail)
        kind = {**output_schema.json_schema(), "$ref": f"#/$defs/{name.replace('-', '_')}"}
        errors = jsonschema.Draft202012Validator(kind).iter_errors(document)
        assert not [f"{error.json_path}: {error.message}" for error in errors]
        return document

    return run
