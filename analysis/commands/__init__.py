"""The commands of `python -m analysis`: options, printing, files."""
