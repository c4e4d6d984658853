"""One process of a job, without TensorFlow: where it runs, what surrounds it, how its time is booked."""
