"""Small statistical tests, checked against published numbers."""
