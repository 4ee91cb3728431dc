"""Gating a model's linear inputs by a method and a plan, and measuring what is really dropped."""

from wina_core.compute.gating.gates import Gates, attach

__all__ = ["Gates", "attach"]
