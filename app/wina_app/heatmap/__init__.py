"""The editable heatmap of layers and projections."""
