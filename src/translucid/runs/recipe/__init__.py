"""The recipe of a run: read, checked, filled in to fit the data, and what it names."""
