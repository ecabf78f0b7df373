"""Token stores for text larger than memory: token ids that are stored on disk once, and read
through memory maps."""
