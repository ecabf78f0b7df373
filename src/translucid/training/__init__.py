"""From a recipe and files to a trained model in a folder."""
