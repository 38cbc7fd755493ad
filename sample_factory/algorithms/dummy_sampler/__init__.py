"""The dummy sampler: random actions at full speed, the ceiling of training."""
