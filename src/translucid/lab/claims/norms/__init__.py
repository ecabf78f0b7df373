"""Claims about normalisation."""
