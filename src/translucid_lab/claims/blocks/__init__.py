"""Claims about residual connections, where the norm stands, and feed-forward blocks."""
