"""The parts of the time of a training step, from records of points, controls, exchange and input.

`paired_windows` reads the records, `split` divides a step into parts and finds the largest loss and the slowest rank,
and divides whole jobs. `text` explains a curve, `comparison` compares arms.
"""
