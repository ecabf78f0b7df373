"""Faster code with the same results up to rounding. Each function has a plain counterpart, and
tests compare the two."""
