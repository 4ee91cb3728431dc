"""Browse, filter, compare and export stored runs."""
