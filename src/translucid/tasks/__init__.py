"""What a model is for: the loss it is trained on, what it predicts, how well it does."""
