"""From an experiment to its points, their runs and jobs, and the checks before any process starts."""
