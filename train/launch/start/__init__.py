"""From a job to the command that starts its processes."""
