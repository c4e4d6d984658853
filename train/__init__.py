"""How an experiment runs: launch it, train on every rank, measure, record."""

from common.installed import require

require("hydra")
