"""Claims about the shapes of tasks."""
