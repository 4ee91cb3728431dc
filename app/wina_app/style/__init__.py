"""Theme, icons, number formats."""
