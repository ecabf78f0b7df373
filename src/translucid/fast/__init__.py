"""Faster ways to the same numbers."""
