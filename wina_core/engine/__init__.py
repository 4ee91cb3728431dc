"""The engine process: it owns torch and the loaded models, and is driven by JSON lines on its standard streams."""
