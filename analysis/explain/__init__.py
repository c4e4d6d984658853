"""Why speedup by throughput and by wall time differ: wall time split into a fixed cost and a cost per step."""
