"""Read the tokenizer files of foreign models into a `Tokenizer`."""

from translucid.interop.tokenizers.tokenizer_folder import read_tokenizers as read_tokenizers
