"""Model families: how each one describes its configuration and names its weights."""
