"""Services behind the pages: engine, store, settings, guide; no widgets."""
