"""What a generated token costs, from a model's sizes alone (`cost.costs`). Loads no torch; `warning` not even numpy."""
