"""The jobs of the window: their states, order and texts; above these the docks of jobs and log."""
