"""Claims about threshold units and MLPs."""
