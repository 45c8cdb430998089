"""Steps of single, unfused ops: movement, indexing, reductions, scans, sorting."""
