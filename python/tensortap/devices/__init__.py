"""Statistics of tensors in a device's memory, computed there."""
