"""Where models come from, and checks before they are loaded."""
