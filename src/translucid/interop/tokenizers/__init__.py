"""Tokenizers of other people's models: their files to the tokenizer that the house works with."""

from translucid.interop.tokenizers.folder import read_tokenizers as read_tokenizers
