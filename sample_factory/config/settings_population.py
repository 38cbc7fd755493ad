"""Settings of training several policies at once.

Read by the session and by population-based training, which replaces weak policies by copies of strong ones
and perturbs their hyper-parameters.
"""

from __future__ import annotations

from sample_factory.config.setting import Setting, in_group

SETTINGS = in_group(
    "population",
    Setting("num_policies", int, 1, "Policies trained together.", minimum=1),
    Setting("with_pbt", bool, False, "Population-based training; needs --num_policies of 2 or more."),
    Setting(
        "pbt_mix_policies_in_one_env",
        bool,
        True,
        "Whether agents of one multi-agent environment may follow different policies.",
    ),
    Setting(
        "pbt_period_env_steps",
        int,
        5_000_000,
        "Frames of a policy between two population steps.",
        minimum=1,
    ),
    Setting(
        "pbt_start_mutation",
        int,
        20_000_000,
        "Frames of a policy before its first population step.",
        minimum=0,
    ),
    Setting(
        "pbt_replace_fraction",
        float,
        0.3,
        "Fraction of policies that count as best, and as worst.",
        minimum=0.0,
        maximum=1.0,
    ),
    Setting(
        "pbt_mutation_rate",
        float,
        0.15,
        "Probability that a population step changes one hyper-parameter.",
        minimum=0.0,
        maximum=1.0,
    ),
    Setting(
        "pbt_replace_reward_gap",
        float,
        0.1,
        "A weak policy is replaced only if a strong one is better by this fraction.",
        minimum=0.0,
    ),
    Setting(
        "pbt_replace_reward_gap_absolute",
        float,
        1e-6,
        "A weak policy is replaced only if a strong one is better by this much.",
        minimum=0.0,
    ),
    Setting("pbt_optimize_batch_size", bool, False, "Let population-based training change --batch_size."),
    Setting("pbt_optimize_gamma", bool, False, "Let population-based training change --gamma."),
    Setting(
        "pbt_target_objective",
        str,
        "true_reward",
        "Episode statistic by which policies are ranked, for example true_reward or reward.",
    ),
    Setting(
        "pbt_perturb_min",
        float,
        1.05,
        "Smallest factor by which a hyper-parameter is multiplied or divided.",
        minimum=1.0,
    ),
    Setting(
        "pbt_perturb_max",
        float,
        1.5,
        "Largest factor by which a hyper-parameter is multiplied or divided.",
        minimum=1.0,
    ),
    Setting(
        "league_fraction",
        float,
        0.0,
        "Fraction of matches of a multi-agent environment in which half of the agents are played by past "
        "policies, which do not learn; 0 for none.",
        minimum=0.0,
        maximum=1.0,
    ),
    Setting(
        "league_period_env_steps",
        int,
        1_000_000,
        "Frames of a policy between two of its checkpoints joining the league.",
        minimum=1,
    ),
    Setting("league_pool_size", int, 20, "Past policies that the league keeps on disk.", minimum=1),
    Setting(
        "league_seats", int, 2, "Past policies of the league that are loaded at the same time.", minimum=1
    ),
    Setting(
        "league_opponents",
        str,
        "uniform",
        "How past policies are drawn: all alike, or preferably those that win against the present ones.",
        choices=("uniform", "hard"),
    ),
)
