"""Launches with a timeline: what happened within their steps, on all ranks, on one clock."""
