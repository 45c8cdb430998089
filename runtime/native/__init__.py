"""Native programs in this process: their code, their entry from Python, its records, their threads."""
