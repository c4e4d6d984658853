"""Statistics without words of the domain: numbers with their intervals, and verdicts on them."""
