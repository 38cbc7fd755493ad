"""Mathematics of reinforcement learning: tensors in, tensors out; no processes."""
