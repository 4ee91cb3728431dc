"""Names of lm-eval tasks and what their code may do."""
