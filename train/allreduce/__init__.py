"""Bandwidth: of allreduces over message sizes, and of the links below them, as an upper bound."""
