"""Batch systems: from runs to jobs, to their submission, to their state in the queue."""
