"""Weights & Biases: runs that mirror records, or are watched while they train. The JSON record is the source.

Nothing in the kit reads a W&B run back. No rank imports wandb: the launcher mirrors records when all is measured
and for a run that is watched starts a process that reads what the ranks leave (mirror.py).
"""
