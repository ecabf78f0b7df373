"""The usual silent mistakes in data, vocabulary and model, looked for before anyone waits."""
