#!/bin/sh
# Resolve the groups in pyproject.toml into uv.lock. What is installed is found by name, version and hash, at the index
# that the user's own settings name: the lock names no host.
set -eu
uv lock "$@"
sed -E -i 's#registry = "https://[^"]*"#registry = "index"#; s#url = "https://[^"]*/([^/"]+)"#path = "\1"#' uv.lock
