"""Loading Hugging Face models and seeing them through one architecture table."""
