"""The engine process: one job at a time on loaded models."""
