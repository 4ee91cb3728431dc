"""Sources of models, and checks before loading."""
