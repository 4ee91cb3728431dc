"""Generate from one prompt, dense and sparse side by side."""
