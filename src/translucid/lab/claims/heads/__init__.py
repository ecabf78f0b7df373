"""Claims about attention heads."""
