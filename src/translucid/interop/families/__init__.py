"""Families of models: how each describes itself, and what it calls its weights."""
