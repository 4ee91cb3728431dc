"""What a job computes first, how much memory and how many steps it takes."""
