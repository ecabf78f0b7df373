"""Claims about next-word prediction."""
