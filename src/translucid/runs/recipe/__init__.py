"""The recipe of a run: read it, check it, complete it to fit the data, and load its data."""
