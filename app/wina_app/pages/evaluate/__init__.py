"""Launch lm-eval tasks and fidelity measurements."""
