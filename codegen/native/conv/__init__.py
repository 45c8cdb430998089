"""Convolution and pooling as steps."""
