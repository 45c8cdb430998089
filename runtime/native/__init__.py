"""Native programs in this process: their code, their execution, their threads."""
