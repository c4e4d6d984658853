"""From files to batches: what the datasets that are read from files have in common."""
