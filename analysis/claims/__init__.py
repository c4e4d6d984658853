"""The claims of the reports: every conclusion that can be checked, with a verdict that is computed from numbers."""
