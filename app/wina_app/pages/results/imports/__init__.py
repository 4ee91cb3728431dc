"""The dialog on results of other tools: preview, import, list, export and removal."""
