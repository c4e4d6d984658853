"""Figures, captions and data as files: drawn in parallel, the same bytes from the same input."""
