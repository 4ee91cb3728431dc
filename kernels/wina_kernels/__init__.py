"""The arithmetic of gating on tensors alone: no model, no Qt, nothing of wina_core."""
