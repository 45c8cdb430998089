"""Programs for any number of rows: what keeps rows apart, and the loop over panels of rows."""
