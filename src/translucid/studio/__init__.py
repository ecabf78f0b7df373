"""The studio: a local page that opens a model and shows every number inside it."""
