"""Open models made with other tools, and export models to their formats."""
