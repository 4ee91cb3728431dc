"""Theme, icons, number formats, translation."""
