"""Inspect one gated input: |x| against column norm, kept and dropped."""
