"""Figures: the only package, with page/, that imports Matplotlib; it draws numbers that other packages compute.

A module that defines figures imports Matplotlib in the functions that draw, so that they can be listed without it.
"""
