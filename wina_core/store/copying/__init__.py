"""Copies between results databases: merge, verification and backup."""
