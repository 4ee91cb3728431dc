"""Files and folders: atomic writes, tables, TOML with line numbers."""
