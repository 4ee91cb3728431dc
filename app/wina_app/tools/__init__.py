"""Command-line tools that draw figures and screenshots."""
