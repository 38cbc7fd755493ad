"""Settings of the network.

Read by the model package when it builds the actor-critic, in learners, policy workers and evaluation alike.
"""

from __future__ import annotations

from sample_factory.config.setting import Setting, in_group

_INPUT = in_group(
    "model",
    Setting("obs_subtract_mean", float, 0.0, "Subtracted from the main observation."),
    Setting("obs_scale", float, 1.0, "The main observation is divided by this, 255 for images.", above=0.0),
    Setting("normalize_input", bool, False, "Scale observations by their running mean and deviation."),
    Setting(
        "normalize_input_keys",
        str,
        None,
        "Observations that --normalize_input=True applies to; None means all of them.",
        nargs="*",
    ),
)

_ENCODER = in_group(
    "model",
    Setting("encoder_type", str, "conv", "Kind of encoder: conv, resnet or mlp."),
    Setting(
        "encoder_subtype",
        str,
        "convnet_simple",
        "Architecture of the encoder: convnet_simple, convnet_impala, convnet_atari, minigrid_convnet_tiny, "
        "resnet_impala or mlp_mujoco.",
        aliases=("encoder_conv_architecture",),
    ),
    Setting(
        "encoder_custom",
        str,
        None,
        "Name of a registered custom encoder, which replaces the standard one.",
    ),
    Setting(
        "encoder_extra_fc_layers",
        int,
        1,
        "Fully connected layers of --hidden_size units after the encoder.",
        minimum=0,
    ),
    Setting(
        "encoder_mlp_layers",
        int,
        None,
        "Layers of the encoder of vector observations; None follows --encoder_subtype and --hidden_size.",
        nargs="*",
        minimum=1,
    ),
    Setting(
        "encoder_conv_mlp_layers",
        int,
        None,
        "Layers after the convolutions; None means --encoder_extra_fc_layers layers of --hidden_size units.",
        nargs="*",
        minimum=1,
    ),
    Setting(
        "hidden_size",
        int,
        512,
        "Units of fully connected layers and of the recurrent core.",
        aliases=("rnn_size",),
        minimum=1,
    ),
    Setting(
        "nonlinearity",
        str,
        "elu",
        "Activation function.",
        choices=("elu", "relu", "tanh"),
    ),
    Setting("use_spectral_norm", bool, False, "Spectral normalisation, in custom encoders that support it."),
)

_CORE = in_group(
    "model",
    Setting("use_rnn", bool, True, "Whether the network has a recurrent core."),
    Setting("rnn_type", str, "gru", "Kind of recurrent core.", choices=("gru", "lstm")),
    Setting("rnn_num_layers", int, 1, "Layers of the recurrent core.", minimum=1),
    Setting(
        "decoder_mlp_layers",
        int,
        [],
        "Layers between the core and the heads; none by default.",
        nargs="*",
        minimum=1,
    ),
    Setting(
        "actor_critic_share_weights",
        bool,
        True,
        "True: actor and critic are heads of one network. False: two networks.",
    ),
)

_INITIALISATION = in_group(
    "model",
    Setting(
        "policy_initialization",
        str,
        "orthogonal",
        "How weights are initialised.",
        choices=("orthogonal", "xavier_uniform", "torch_default"),
    ),
    Setting("policy_init_gain", float, 1.0, "Gain of the initialisation.", above=0.0),
)

_CONTINUOUS_ACTIONS = in_group(
    "model",
    Setting(
        "adaptive_stddev",
        bool,
        True,
        "Continuous actions: the deviation depends on the state, or is one learned vector.",
    ),
    Setting(
        "initial_stddev",
        float,
        1.0,
        "Continuous actions: deviation at the start when it does not depend on the state.",
        above=0.0,
    ),
    Setting(
        "continuous_tanh_scale",
        float,
        0.0,
        "Continuous actions: means are kept within plus or minus this by a tanh; 0 leaves them free.",
        minimum=0.0,
    ),
)

_EXECUTION = in_group(
    "model",
    Setting(
        "memory_format",
        str,
        "auto",
        "Layout of image tensors inside the network: same numbers, different speed; auto uses channels_last "
        "where convolutions gain from it.",
        choices=("auto", "channels_last", "contiguous"),
    ),
    Setting(
        "compile_model",
        bool,
        False,
        "Compile the learner's encoders with torch.compile (needs a C++ compiler): some 20 seconds at the "
        "start, then about a tenth less time to train on pictures.",
    ),
)

SETTINGS = _INPUT + _ENCODER + _CORE + _INITIALISATION + _CONTINUOUS_ACTIONS + _EXECUTION
