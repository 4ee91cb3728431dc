"""Loading Hugging Face models and seeing them through one architecture table."""

from wina_core.compute.models.quantizer_backends import hide_quantizer_backends

hide_quantizer_backends()
