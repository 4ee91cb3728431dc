"""Names of lm-eval tasks, and the risk of their code."""
