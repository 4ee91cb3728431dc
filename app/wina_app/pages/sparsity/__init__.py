"""Edit a plan on the heatmap."""
