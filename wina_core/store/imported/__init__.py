"""Results of other tools in the database, in tables of their own: no query of measured results reads them."""
