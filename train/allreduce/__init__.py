"""Allreduces, links and memory, measured without a model."""
