"""The artifact appendix: its claims, steps and experiments as data, and how a reviewer's results are judged."""
