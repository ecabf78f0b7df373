"""Tokenizers of foreign models: from their files to a `Tokenizer`."""

from translucid.interop.tokenizers.tokenizer_folder import read_tokenizers as read_tokenizers
