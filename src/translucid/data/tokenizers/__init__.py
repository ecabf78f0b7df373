"""Tokenizers: convert text to token ids and back."""
