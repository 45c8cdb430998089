"""Graphs as models of ONNX, the exchange format that other runtimes read."""
