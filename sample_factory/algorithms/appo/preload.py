"""What the fork server imports once, so that every worker starts in milliseconds."""

from sample_factory.algorithms.appo import (  # noqa: F401
    acting,
    learner_worker,
    policy_worker,
    probing,
    rollout_worker,
    site,
)
