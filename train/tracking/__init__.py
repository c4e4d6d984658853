"""Weights & Biases: runs that mirror records, or are watched while they train. The JSON record is the source.

Nothing in the kit reads a W&B run. No rank imports wandb: the launcher mirrors records after all measurements. For a
run that is watched it starts a process that reads the files of the ranks (mirror.py).
"""
