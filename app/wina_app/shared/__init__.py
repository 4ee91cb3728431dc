"""Choices and tables that several pages share."""
