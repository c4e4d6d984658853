"""Launches with a timeline: the steps of all ranks on one clock, and what happened within them."""
