"""Bytes between the processes of a job: its secret, authenticated connections, groups of ranks over TCP."""
