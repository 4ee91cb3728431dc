"""Gating a model's linear inputs by a method and a plan, and measuring what is really dropped."""

from wina_core.gating.gates import Gates, attach
from wina_core.gating.rules import Thresholds

__all__ = ["Gates", "Thresholds", "attach"]
