"""Command-line tool that takes screenshots."""
