"""Open a model, read its architecture and its cost."""
