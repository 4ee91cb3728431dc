"""Scores of inputs, selections by score, and low-rank parts for what a mask drops: shared by calibration and gating."""
