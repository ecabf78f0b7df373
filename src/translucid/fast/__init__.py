"""Faster code with the same results. Each has a plain counterpart, and a test that both agree."""
