"""The DeepMind Control Suite."""
