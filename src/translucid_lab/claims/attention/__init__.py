"""Claims about attention, masks and what tokens exchange."""
