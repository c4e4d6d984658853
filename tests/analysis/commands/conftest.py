import json

import jsonschema
import pytest

from analysis.__main__ import main
from analysis.commands import schema


@pytest.fixture
def json_output(capsys):
    """Runs a command with --format json; its document, which the schema allows."""

    def run(command, *arguments, status=0):
        assert main([command, *map(str, arguments), "--format", "json"]) == status
        document = json.loads(capsys.readouterr().out, parse_constant=lambda word: pytest.fail(word))
        kind = {**schema.json_schema(), "$ref": f"#/$defs/{command.replace('-', '_')}"}
        errors = jsonschema.Draft202012Validator(kind).iter_errors(document)
        assert not [f"{error.json_path}: {error.message}" for error in errors]
        return document

    return run
