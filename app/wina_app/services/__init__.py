"""Engines, store and settings behind the pages; no widgets."""
