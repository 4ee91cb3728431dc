"""The Machines page of the settings, and the choice of machines that run jobs."""
