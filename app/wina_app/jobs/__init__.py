"""The jobs of the window: their states, their order and their texts; no widgets."""
