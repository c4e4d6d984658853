"""What the measurements showed: the reports' numbers and one's own, as one tidy table, and all that is made from it."""
