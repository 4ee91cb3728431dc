"""Allocation of a budget over a model's cells: of sparsity (uniform, greedy, by curves, refined, evolved) or jointly of
bits and sparsity."""

from wina_core.compute.allocation.allocators import allocate
from wina_core.compute.allocation.in_planes import allocate_in_planes
from wina_core.compute.allocation.joint import allocate_jointly

__all__ = ["allocate", "allocate_in_planes", "allocate_jointly"]
