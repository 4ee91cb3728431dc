"""Options of the commands: groups of them, and one at a time."""
