"""The content of a worked solution, and every format it is written in."""
