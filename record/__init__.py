"""Data that processes exchange: the run record, the parts of ranks, files and variables."""
