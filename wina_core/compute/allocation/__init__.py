"""Allocation of a sparsity budget over a model's cells: uniform, greedy, by curves, refined, or evolved."""

from wina_core.compute.allocation.allocate import VERSION, allocate, stored_curves
from wina_core.compute.allocation.gated import searched

__all__ = ["VERSION", "allocate", "searched", "stored_curves"]
