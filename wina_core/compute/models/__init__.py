"""Hugging Face models, loaded and seen through one table of architectures."""

from wina_core.compute.models.quantizer_backends import hide_quantizer_backends

hide_quantizer_backends()
