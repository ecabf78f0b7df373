"""The translation of Python to JavaScript, and the lessons for pages without a server."""
