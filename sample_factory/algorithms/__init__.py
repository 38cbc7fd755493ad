"""Training algorithms: APPO, and the dummy sampler that measures the speed ceiling."""
