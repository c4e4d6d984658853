"""What emulated nodes have on one machine: CPU quotas and separate networks."""
