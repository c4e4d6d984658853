"""What a run is: the schema of conf/, composing it, and what makes two runs the same measurement."""
