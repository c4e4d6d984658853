"""A job from its start to its record: watch it, end it, assemble the record from what its ranks measured."""
