"""A job from its start to its record: watch it, end it, put together what its ranks left."""
