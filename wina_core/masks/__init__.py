"""Score thresholds and masks of a gated input, without torch."""
