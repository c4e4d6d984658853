"""Expand an experiment into points and run each as a job of one process per rank."""
