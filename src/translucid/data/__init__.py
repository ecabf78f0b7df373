"""What models learn from: readers, tokenizers, batches, and toyland, the embedded world."""
