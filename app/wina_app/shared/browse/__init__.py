"""Choice of a folder on another machine."""
