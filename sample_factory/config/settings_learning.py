"""Settings of the learner: batches, returns, losses, optimiser.

Read by the batcher and the learner. Those marked tunable are what population-based training may change.
"""

from __future__ import annotations

from sample_factory.config.setting import Setting, in_group

_BATCHES = in_group(
    "learner",
    Setting(
        "batch_size",
        int,
        1024,
        "Steps in one minibatch, that is in one SGD step; a multiple of --rollout.",
        minimum=1,
        tunable=True,
    ),
    Setting(
        "num_batches_per_iteration",
        int,
        1,
        "Minibatches in one batch, collected before training on them.",
        aliases=("num_batches_per_epoch",),
        minimum=1,
    ),
    Setting("ppo_epochs", int, 1, "Passes over each batch.", aliases=("num_epochs",), minimum=1),
    Setting(
        "num_minibatches_to_accumulate",
        int,
        -1,
        "Minibatches that may wait for the learner before collection pauses; -1 means two batches, "
        "0 means none.",
        aliases=("num_batches_to_accumulate",),
        minimum=-1,
    ),
    Setting(
        "shuffle_minibatches",
        bool,
        None,
        "Whether minibatches are drawn from the batch at random; None does so when a batch has several.",
    ),
    Setting(
        "recurrence",
        int,
        32,
        "Steps gradients flow back through the recurrent core; divides --rollout and equals it with V-trace. "
        "-1 chooses --rollout with an RNN or V-trace, otherwise 1.",
        minimum=-1,
    ),
)

_RETURNS = in_group(
    "learner",
    Setting(
        "gamma",
        float,
        0.99,
        "Discount factor; population-based training changes it with --pbt_optimize_gamma=True.",
        minimum=0.0,
        maximum=1.0,
        tunable=True,
    ),
    Setting(
        "gae_lambda",
        float,
        0.95,
        "Trade-off between bias and variance of advantages, used when V-trace is off.",
        minimum=0.0,
        maximum=1.0,
    ),
    Setting(
        "with_vtrace",
        bool,
        True,
        "Correct returns for the lag between the policy that acted and the one that learns.",
    ),
    Setting(
        "vtrace_rho", float, 1.0, "V-trace: upper limit of the weight of temporal differences.", above=0.0
    ),
    Setting("vtrace_c", float, 1.0, "V-trace: upper limit of the weight of traces.", above=0.0),
    Setting(
        "value_bootstrap",
        bool,
        True,
        "True: a time-out is bootstrapped with the value of the true final observation; "
        "False: it counts as a termination.",
    ),
    Setting(
        "normalize_returns",
        bool,
        False,
        "Train the value head on returns scaled by their running mean and deviation.",
    ),
)

_LOSSES = in_group(
    "learner",
    Setting(
        "ppo_clip_ratio",
        float,
        0.1,
        "How far one update may move action probabilities: their ratio is clipped to [1/(1+x), 1+x].",
        above=0.0,
        tunable=True,
    ),
    Setting(
        "ppo_clip_value",
        float,
        1.0,
        "How far one update may move a value estimate.",
        above=0.0,
        tunable=True,
    ),
    Setting("value_loss_coeff", float, 0.5, "Weight of the value loss.", minimum=0.0, tunable=True),
    Setting(
        "exploration_loss_coeff", float, 0.003, "Weight of the exploration loss.", minimum=0.0, tunable=True
    ),
    Setting(
        "exploration_loss",
        str,
        "entropy",
        "Exploration loss: entropy of the action distribution, or its symmetric KL divergence from uniform "
        "(discrete actions only).",
        choices=("entropy", "symmetric_kl"),
    ),
    Setting(
        "kl_loss_coeff",
        float,
        0.0,
        "Weight of the KL divergence from the policy that acted; 1.0 steadies continuous control.",
        minimum=0.0,
    ),
    Setting("use_cpc", bool, False, "Add the CPC|A auxiliary loss, which predicts future observations."),
    Setting("cpc_forward_steps", int, 8, "CPC|A: steps predicted ahead.", minimum=1),
    Setting("cpc_time_subsample", int, 6, "CPC|A: starting steps drawn from each trajectory.", minimum=1),
    Setting("cpc_forward_subsample", int, 2, "CPC|A: predictions drawn for each starting step.", minimum=1),
)

_OPTIMISER = in_group(
    "optimiser",
    Setting("optimizer", str, "adam", "Optimiser of the network.", choices=("adam", "lamb")),
    Setting("learning_rate", float, 1e-4, "Learning rate.", above=0.0, tunable=True),
    Setting(
        "lr_schedule",
        str,
        "constant",
        "How the learning rate moves: constant; kl_adaptive_minibatch and kl_adaptive_epoch keep the change "
        "of the policy near --lr_schedule_kl_threshold; linear_decay reaches 0 at --train_for_env_steps.",
        choices=("constant", "kl_adaptive_minibatch", "kl_adaptive_epoch", "linear_decay"),
    ),
    Setting(
        "lr_schedule_kl_threshold", float, 0.008, "KL divergence the adaptive schedules aim for.", above=0.0
    ),
    Setting("lr_adaptive_min", float, 1e-6, "Smallest learning rate of the adaptive schedules.", above=0.0),
    Setting("lr_adaptive_max", float, 1e-2, "Largest learning rate of the adaptive schedules.", above=0.0),
    Setting("adam_eps", float, 1e-6, "Adam: added to the denominator.", above=0.0),
    Setting("adam_beta1", float, 0.9, "Adam: decay of the mean of gradients.", minimum=0.0, below=1.0),
    Setting(
        "adam_beta2", float, 0.999, "Adam: decay of the mean of squared gradients.", minimum=0.0, below=1.0
    ),
    Setting(
        "max_grad_norm",
        float,
        4.0,
        "Gradients are scaled down to this norm; 0 leaves them alone.",
        tunable=True,
    ),
)

_EXECUTION = in_group(
    "learner",
    Setting(
        "train_in_background_thread",
        bool,
        True,
        "Read for command lines of Sample Factory 1, without effect: copying a batch takes little of the "
        "time of training on it, and a thread for it would compete for the same cores.",
    ),
    Setting(
        "learner_main_loop_num_cores",
        int,
        1,
        "Read for command lines of Sample Factory 1, without effect: see --learner_threads.",
        minimum=1,
    ),
    Setting(
        "learner_threads", int, 0, "Threads the learner computes with; 0 uses the cores left free.", minimum=0
    ),
    Setting(
        "micro_batch_size",
        int,
        0,
        "Steps the encoder sees at once while training on a CPU: what fits into the cache is faster, with "
        "the same result. 0 means 128 for plain convolutions, 256 for other encoders of images, and "
        "everything at once otherwise.",
        minimum=0,
    ),
)

SETTINGS = _BATCHES + _RETURNS + _LOSSES + _OPTIMISER + _EXECUTION
