"""The content of a worked solution, and its output formats."""
