"""Tables, comparisons and statistics of stored results."""
