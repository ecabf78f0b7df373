"""Checks for common silent mistakes in data, vocabulary and model, before training."""
