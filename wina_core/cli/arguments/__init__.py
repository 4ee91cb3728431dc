"""Options of the commands: groups of them, one at a time, and their earlier names."""
