"""Networks: encoders, cores, heads, the actor-critic, and its checkpoints."""
