"""Training runs: set up, train, log, save, resume and reproduce, each in its own folder."""
