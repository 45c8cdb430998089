"""Functions behind the methods of tensors, with PyTorch's arguments, by subject."""
