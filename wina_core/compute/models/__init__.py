"""Loading Hugging Face models and seeing them through one architecture table."""

from wina_core.compute.models.lean_transformers import leave_out_quantizers

leave_out_quantizers()
