"""Batch systems: from runs to jobs, to their submission, to their state in the queue.

The script of a job holds one command: this same launcher, which inside the allocation makes the runs and writes their
records. So a job that reaches its time limit, or that is started again, has lost nothing that was measured.
"""
