"""Engines elsewhere: over ssh, on a Ray cluster, in Slurm's queue."""
