"""The comparison: one's own records beside the published numbers of the same experiment, or two sets of one's own."""
