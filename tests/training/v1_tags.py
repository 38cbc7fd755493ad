"""Names of the summaries that Sample Factory 1 wrote and that people's dashboards know."""

TRAIN = (
    "valids_fraction",
    "same_policy_fraction",
    "grad_norm",
    "loss",
    "value",
    "entropy",
    "policy_loss",
    "kl_loss",
    "value_loss",
    "exploration_loss",
    "adv_min",
    "adv_max",
    "adv_std",
    "max_abs_logprob",
    "adam_max_second_moment",
    "kl_divergence",
    "kl_divergence_max",
    "value_delta",
    "value_delta_max",
    "fraction_clipped",
    "ratio_mean",
    "ratio_min",
    "ratio_max",
    "num_sgd_steps",
)
TRAIN_OF_LEARNER = (
    "version_diff_min",
    "version_diff_avg",
    "version_diff_max",
    "discarded_rollouts",
    "discarding_rate",
)
TRAIN_GAUSSIAN = (
    "action_mean",
    "action_mean_min",
    "action_mean_max",
    "action_log_std_mean",
    "action_log_std_min",
    "action_log_std_max",
    "action_stddev_mean",
    "action_stddev_min",
    "action_stddev_max",
)
EPISODES = tuple(
    f"0_aux/avg_{name}{suffix}"
    for name in ("reward", "true_reward", "len")
    for suffix in ("", "_min", "_max")
)
SPEED = ("0_aux/_fps", "0_aux/master_process_memory_mb", "0_aux/_sample_throughput")
