"""From an experiment to finished records: plan, start, supervise."""
