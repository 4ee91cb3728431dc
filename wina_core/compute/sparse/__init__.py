"""Sparse models as Hugging Face folders: written here, and loaded by transformers' extension point for quantizers."""
