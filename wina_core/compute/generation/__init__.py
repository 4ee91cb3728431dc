"""Generation token by token, with each token's distance from the dense model."""
