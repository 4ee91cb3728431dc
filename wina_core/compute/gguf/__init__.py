"""GGUF files of plain models: llama.cpp's own converter, and a check of its files."""
