"""Sweep products and decoding by backend, shape and sparsity."""
