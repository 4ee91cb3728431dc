"""Study files: the gallery, model roles, expansion into runs."""
