"""A run: set up, trained, logged, saved, resumed and reproduced, in a folder of its own."""
