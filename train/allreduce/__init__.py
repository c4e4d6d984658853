"""Allreduces and links, measured without a model."""
