"""Asynchronous PPO: rollout workers, policy workers, batcher, learner, and the session that runs them."""
