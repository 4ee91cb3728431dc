"""The cost of a generated token, from a model's sizes alone (`cost.costs`)."""
