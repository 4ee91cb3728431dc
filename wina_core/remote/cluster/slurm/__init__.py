"""Array jobs of Slurm: their settings, submission, states and cancellation, on the machine that reaches the queue."""
