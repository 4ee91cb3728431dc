"""The editor of a plan's cells: values, constraints, undo."""
