"""Slurm: batch scripts, submission, what became of them."""
