"""The audit: named rules over the numbers of the reports and over local records, and what they find.

Each rule is a small function with its reason written down; it knows quantities, not reports.
"""
