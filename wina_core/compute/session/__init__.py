"""Loaded models with their rotations and calibrations, and the machine that they run on."""
