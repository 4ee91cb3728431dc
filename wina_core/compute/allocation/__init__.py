"""Allocation of a sparsity budget over a model's cells: uniform, greedy, by curves, refined, or evolved."""

from wina_core.compute.allocation.allocate import allocate, stored_curves

__all__ = ["allocate", "stored_curves"]
