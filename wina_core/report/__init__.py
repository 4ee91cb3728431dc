"""Reports, model cards and figures."""
