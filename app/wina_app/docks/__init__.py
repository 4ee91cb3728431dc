"""The docks of jobs and log: their widgets, and their controllers between them and the workbench."""
