"""The main window: menus, docks, palette, help."""
