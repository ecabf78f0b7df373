"""Start from something trained: what is opened, what of it is taken over, and its vocabulary."""
