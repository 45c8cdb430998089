"""Passes that leave a graph with the same meaning and less to do."""
