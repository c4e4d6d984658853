"""The HTML page with everything, or about one report: one file that needs no network."""
