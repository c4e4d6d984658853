import json

import jsonschema
import pytest

from analysis.__main__ import main
from analysis.commands import schema


@pytest.fixture
def command(capsys):
    """Runs a command, which must end with this status; what it printed."""

    def run(*arguments, status=0):
        assert main([*map(str, arguments)]) == status
        return capsys.readouterr()

    return run


@pytest.fixture
def json_output(command):
    """Runs a command with --format json; its document, which the schema allows."""

    def run(name, *arguments, status=0):
        printed = command(name, *arguments, "--format", "json", status=status)
        document = json.loads(printed.out, parse_constant=lambda word: pytest.fail(word))
        kind = {**schema.json_schema(), "$ref": f"#/$defs/{name.replace('-', '_')}"}
        errors = jsonschema.Draft202012Validator(kind).iter_errors(document)
        assert not [f"{error.json_path}: {error.message}" for error in errors]
        return document

    return run
