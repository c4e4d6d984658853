"""How an experiment runs: launch it, train on every rank, measure, record."""
