"""WINA Workbench's core: activation-sparsity methods, rotations, evaluation, the results store and the engine."""

__version__ = "0.1.0"
