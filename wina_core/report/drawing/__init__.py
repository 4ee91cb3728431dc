"""Figures as plain data, and the one renderer that draws them for files, scripts and reports."""
