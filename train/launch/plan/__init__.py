"""From an experiment to its points and their jobs, and what is checked before any process starts."""
