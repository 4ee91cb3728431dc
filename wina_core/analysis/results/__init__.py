"""Tables of stored metrics, for the window and the command line: columns, filters, what all rows share."""
