"""Fast paths with the same results. Each has a plain twin, and a test that the two agree."""
