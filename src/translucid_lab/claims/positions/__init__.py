"""Claims about how positions are told."""
