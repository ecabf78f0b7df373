"""The same claims beyond toys: on real text, and on weights that others have trained."""
