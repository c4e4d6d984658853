"""From files to batches: the common parts of datasets that are read from files."""
