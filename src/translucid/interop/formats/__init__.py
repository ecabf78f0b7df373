"""File formats of tensors: one reader each. No reader executes code from a file."""
