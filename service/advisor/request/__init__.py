"""What a plan is asked for: the model, its published checkpoints and its length."""
