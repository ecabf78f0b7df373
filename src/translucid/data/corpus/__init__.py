"""Token stores for text larger than memory: token ids on disk, built once, read through memory
maps."""
