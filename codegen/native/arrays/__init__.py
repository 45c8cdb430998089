"""Steps of ops that stand alone: movement, indexing, reductions, scans, sorting."""
