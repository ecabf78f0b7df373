"""Fast paths with the same results. Each has a plain counterpart, and a test that the two agree."""
