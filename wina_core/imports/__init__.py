"""Results that other tools measured: read from their files, checked against a model, never mixed with own ones."""
