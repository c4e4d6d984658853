"""Comparisons: local records with the published numbers of the same experiment, or two sets of local records."""
