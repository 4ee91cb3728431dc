"""Runs that other machines compute: array jobs in a cluster's queue."""
