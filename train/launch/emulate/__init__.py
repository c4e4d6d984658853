"""Nodes emulated on one machine: CPU quotas and networks of their own."""
