"""Claims about turning probabilities into text."""
