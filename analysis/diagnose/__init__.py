"""Where the time of a training step goes, from records of points, controls, exchange and input measured in turn.

`turns` reads the records, `split` divides the step into parts, `straggler` finds a rank that holds up the others,
`verdict` says which part is the largest, `words`, `document` and `figure` show it.
"""
