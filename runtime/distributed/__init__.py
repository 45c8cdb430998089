"""Programs over several processes: the communicator, collectives, and agreement of ranks on their programs."""
