"""Gallery of studies: launch, estimate, report."""
