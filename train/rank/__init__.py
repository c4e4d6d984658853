"""One process of a job, without TensorFlow: its placement, its environment, its phases."""
