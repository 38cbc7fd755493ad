"""A policy to use in other programs: numpy in, actions out.

    policy = sample_factory.load_policy("train_dir/my_experiment")
    state = policy.reset()
    action, state = policy.act(obs, state)

Works on an experiment, a checkpoint, a published policy and on files that `sf export` wrote; one observation
or a batch. Invariant: a policy remembers nothing; what an agent knows is in the state that the caller keeps.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from gymnasium import spaces

from sample_factory.config.config import Config
from sample_factory.config.experiment_files import CFG_FILE, read_cfg_file
from sample_factory.config.parsing import default_cfg
from sample_factory.envs.contract import ACTION_MASK
from sample_factory.envs.make import make_env
from sample_factory.envs.observations import BARE_KEY, observation_dict_space
from sample_factory.envs.roles import role_obs_space, roles_of
from sample_factory.envs.space_files import space_from_json, space_to_json
from sample_factory.evaluation.errors import EvaluationError
from sample_factory.evaluation.exportable import ExportablePolicy
from sample_factory.evaluation.player import load_model
from sample_factory.evaluation.source import Location, find_checkpoint, locate
from sample_factory.rl.action_spaces import to_env_actions
from sample_factory.rl.distributions import make_distribution

SPACES_FILE = "spaces.json"
ONNX_SUFFIX, TORCHSCRIPT_SUFFIX = ".onnx", ".pt"
SIGNATURE_KEY = "sample_factory.policy"  # where exported files keep their signature
MISSING_ONNXRUNTIME = "Policies in ONNX files need onnxruntime: pip install 'sample-factory-rebuilt[export]'"

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Signature:
    """What a policy takes and gives."""

    obs_space: spaces.Dict
    action_space: spaces.Space[Any]
    rnn_state_size: int

    def to_json(self) -> str:
        """For files of exported policies."""
        return json.dumps(
            {
                "observation_space": space_to_json(self.obs_space),
                "action_space": space_to_json(self.action_space),
                "rnn_state_size": self.rnn_state_size,
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Signature:
        """The signature that `to_json` wrote."""
        content = json.loads(text)
        obs_space = space_from_json(content["observation_space"])
        assert isinstance(obs_space, spaces.Dict)
        return cls(obs_space, space_from_json(content["action_space"]), content["rnn_state_size"])


class PolicyStep(NamedTuple):
    """What a network gives for a batch."""

    actions: np.ndarray  # [B, A], the most likely ones; columns as in `rl.action_spaces`
    action_params: np.ndarray  # [B, K]
    values: np.ndarray  # [B]
    states: np.ndarray  # [B, S]


class Backend(Protocol):
    """Whatever runs the network."""

    def __call__(self, obs: Arrays, states: np.ndarray) -> PolicyStep:
        """One step for a batch."""


class TorchBackend:
    """The network in torch, from a checkpoint or a TorchScript file."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def __call__(self, obs: Arrays, states: np.ndarray) -> PolicyStep:
        """See `Backend`."""
        with torch.inference_mode():
            inputs = [torch.from_numpy(array) for array in (*obs.values(), states)]
            return PolicyStep(*(output.numpy() for output in self._module(*inputs)))


class OnnxBackend:
    """The network in onnxruntime."""

    def __init__(self, session: Any, keys: list[str]) -> None:
        self._session = session
        # An exporter may leave out what the network does not read, such as the state of one without memory.
        self._wanted = {entry.name for entry in session.get_inputs()}
        self._keys = keys

    def __call__(self, obs: Arrays, states: np.ndarray) -> PolicyStep:
        """See `Backend`."""
        from sample_factory.evaluation.exportable import OUTPUTS, STATE_INPUT

        inputs = {**obs, STATE_INPUT: states}
        fed = {name: array for name, array in inputs.items() if name in self._wanted}
        return PolicyStep(*self._session.run(list(OUTPUTS), fed))


class Policy:
    """A trained policy.

    Attributes:
        observation_space: what one agent observes, as named arrays; a bare array goes under `obs`.
        action_space: of one agent.
    """

    def __init__(self, backend: Backend, signature: Signature, seed: int | None = None) -> None:
        self._backend = backend
        self.observation_space = signature.obs_space
        self.action_space = signature.action_space
        self.rnn_state_size = signature.rnn_state_size
        self._generator = torch.Generator()
        self._generator.manual_seed(seed) if seed is not None else self._generator.seed()

    def reset(self, num_agents: int | None = None) -> np.ndarray:
        """The state at the start of an episode: `[S]`, or `[num_agents, S]`."""
        shape = (self.rnn_state_size,) if num_agents is None else (num_agents, self.rnn_state_size)
        return np.zeros(shape, np.float32)

    def act(
        self, obs: Any, state: np.ndarray | None = None, *, deterministic: bool = True
    ) -> tuple[Any, np.ndarray]:
        """Chooses what to do.

        Args:
            obs: one observation as the environment gives it, or a batch `[B, ...]`: an array, or a dictionary
                of arrays with the keys of `observation_space`.
            state: what `reset` or the last `act` gave; None is the start of an episode.
            deterministic: take the most likely action instead of sampling.

        Returns:
            The action as `env.step` takes it (for a batch a list of them), and the state to go on with.
        """
        batch, is_single = self._batched(obs)
        step = self.step(batch, None if state is None else np.atleast_2d(state))
        columns = step.actions if deterministic else self._sample(step.action_params, batch)
        actions = list(to_env_actions(self.action_space, columns))
        return (actions[0], step.states[0]) if is_single else (actions, step.states)

    def step(self, obs: Arrays, states: np.ndarray | None = None) -> PolicyStep:
        """Everything the network says about a batch of named arrays."""
        num_rows = len(next(iter(obs.values())))
        states = self.reset(num_rows) if states is None else np.ascontiguousarray(states, np.float32)
        return self._backend(obs, states)

    def _batched(self, obs: Any) -> tuple[Arrays, bool]:
        named = obs if isinstance(obs, dict) else {BARE_KEY: obs}
        missing = [key for key in self.observation_space if key not in named]
        if missing:
            raise ValueError(f"the observation lacks {missing[0]!r}; it needs {list(self.observation_space)}")
        arrays = {
            key: np.asarray(named[key], space.dtype) for key, space in self.observation_space.spaces.items()
        }
        key, array = next(iter(arrays.items()))
        shape = self.observation_space[key].shape
        if array.shape == shape:
            return {key: array[None] for key, array in arrays.items()}, True
        if array.shape[1:] != shape:
            raise ValueError(f"{key!r} has shape {array.shape}, but {shape} or (batch, *{shape}) is needed")
        return {key: np.ascontiguousarray(array) for key, array in arrays.items()}, False

    def _sample(self, action_params: np.ndarray, obs: Arrays) -> np.ndarray:
        mask = torch.from_numpy(obs[ACTION_MASK]) if ACTION_MASK in obs else None
        distribution = make_distribution(self.action_space, torch.from_numpy(action_params.copy()), mask)
        return distribution.sample(self._generator).numpy()


def load_policy(
    path: str | Path, *, checkpoint: str = "latest", policy_index: int = 0, seed: int | None = None
) -> Policy:
    """Loads a policy for inference on the CPU.

    Args:
        path: an experiment directory, a checkpoint file, a name in `trained_policies/`, or a file that
            `sf export` wrote.
        checkpoint: which one of a directory: `latest`, `best`, an SGD step; as `--iter_num`.
        policy_index: which policy of an experiment with several.
        seed: of sampled actions.

    Raises:
        EvaluationError: there is no policy there.
    """
    suffix = Path(path).suffix
    if suffix == ONNX_SUFFIX:
        return _load_onnx(Path(path), seed)
    if suffix == TORCHSCRIPT_SUFFIX:
        return _load_torchscript(Path(path), seed)
    module, signature = load_exportable(locate(path), checkpoint, policy_index)
    return Policy(TorchBackend(module), signature, seed)


def load_exportable(
    location: Location, checkpoint: str = "latest", policy_index: int = 0
) -> tuple[ExportablePolicy, Signature]:
    """The network of a policy on disk, and what it takes and gives. Raises like `load_policy`."""
    cfg = settings_in(location.directory)
    cfg.policy_index, cfg.iter_num = policy_index, checkpoint
    cfg.model_path = str(location.file) if location.file else None
    obs_space, action_space = spaces_of(cfg, location.directory)
    model = load_model(cfg, find_checkpoint(cfg), obs_space, action_space)
    signature = Signature(obs_space, action_space, model.rnn_state_size)
    return ExportablePolicy(model, list(obs_space)), signature


def settings_in(directory: Path) -> Config:
    """The settings of an experiment, wherever it lies now."""
    here = {"train_dir": str(directory.parent), "experiments_root": None, "experiment": directory.name}
    # Defaults for settings that are younger than the experiment.
    return Config.from_dict(default_cfg().to_dict() | read_cfg_file(directory / CFG_FILE) | here)


def spaces_of(cfg: Config, directory: Path) -> tuple[spaces.Dict, spaces.Space[Any]]:
    """What a policy observes and how it acts: from its `spaces.json`, else from its environment."""
    file = directory / SPACES_FILE
    if file.exists():
        signature = Signature.from_json(file.read_text(encoding="utf-8"))
        return signature.obs_space, signature.action_space
    env = make_env(cfg.env, cfg, None)
    try:
        roles, obs_space = roles_of(env), observation_dict_space(env)
        if roles is None:
            return obs_space, env.action_space
        role = cfg.get("policy_index", 0) % roles.count
        return role_obs_space(obs_space, role), roles.action_spaces[role]
    finally:
        env.close()


def _load_onnx(path: Path, seed: int | None) -> Policy:
    try:
        import onnxruntime
    except ModuleNotFoundError as error:
        raise EvaluationError(MISSING_ONNXRUNTIME) from error
    if not path.exists():
        raise EvaluationError(f"There is no policy at {path}; sf export --output={path} writes one.")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    text = session.get_modelmeta().custom_metadata_map.get(SIGNATURE_KEY)
    if text is None:
        raise EvaluationError(f"{path} is no policy that sf export wrote.")
    signature = Signature.from_json(text)
    return Policy(OnnxBackend(session, list(signature.obs_space)), signature, seed)


def _load_torchscript(path: Path, seed: int | None) -> Policy:
    if not path.exists():
        raise EvaluationError(f"There is no policy at {path}; sf export --output={path} writes one.")
    extra = {SIGNATURE_KEY: ""}
    module = torch.jit.load(str(path), map_location="cpu", _extra_files=extra)
    text: Any = extra[SIGNATURE_KEY]
    if not text:
        raise EvaluationError(f"{path} is no policy that sf export wrote.")
    signature = Signature.from_json(text.decode() if isinstance(text, bytes) else text)
    return Policy(TorchBackend(module), signature, seed)
