"""The demos: a model for each task, trained while you watch, with a report."""
