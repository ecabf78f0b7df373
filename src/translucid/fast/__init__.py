"""The same numbers, sooner. Every file here has a plain twin, and a test that the two agree."""
