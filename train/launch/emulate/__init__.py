"""Nodes emulated on one machine: CPU quotas and separate networks."""
