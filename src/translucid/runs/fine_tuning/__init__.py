"""Fine-tuning: open a trained model, and copy its weights and vocabulary."""
