"""Readers for tensor file formats. No reader executes code from a file."""
