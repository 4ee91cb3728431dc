"""Answering a prompt token by token, with what each token says about the distance from the dense model."""
