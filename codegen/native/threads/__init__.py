"""The threads that run native programs: the pool, their affinity, calls on a big stack."""
