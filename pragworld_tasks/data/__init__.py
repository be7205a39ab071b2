"""Documents: the one record type, the files they come from, and the names of splits."""
