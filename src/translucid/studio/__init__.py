"""The studio: a local web page that shows every number inside a model."""
