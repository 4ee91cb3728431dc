"""Weight quantization of our own: ranges, quantizers, and their application to a loaded model."""
