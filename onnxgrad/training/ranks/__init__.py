"""A Trainer on several ranks."""
