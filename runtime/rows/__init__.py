"""Programs for any number of rows, and the calls that they serve."""
