"""Derivatives of graphs: forward and reverse mode, and which values backward keeps."""
