"""Plans of jobs: the products that are computed first, and the memory that is needed."""
