"""Machines that can be reached over ssh, and what is done on them."""
