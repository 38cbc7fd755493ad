"""Entry point: `sf export` writes a policy as ONNX or TorchScript, for programs without this one.

What is exported is all of it: normalisation, memory, action masks; see `exportable` for inputs and outputs.
Invariant: a file is written only after it has been run on random observations, step by step with its own
memory, and has given what the policy gives.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from sample_factory.config.errors import ConfigError, report_and_exit
from sample_factory.envs.contract import ACTION_MASK
from sample_factory.envs.registry import MissingPackageError, UnknownEnvError
from sample_factory.evaluation.command_line import policy_location, policy_parser
from sample_factory.evaluation.errors import EvaluationError
from sample_factory.evaluation.exportable import OUTPUTS, STATE_INPUT, ExportablePolicy
from sample_factory.evaluation.policy import (
    ONNX_SUFFIX,
    SIGNATURE_KEY,
    TORCHSCRIPT_SUFFIX,
    Arrays,
    Policy,
    Signature,
    TorchBackend,
    load_exportable,
    load_policy,
)
from sample_factory.evaluation.source import Location
from sample_factory.model.checkpoints import CheckpointError
from sample_factory.model.durable_files import write_durably
from sample_factory.rl.distributions import make_distribution

SUFFIXES = {"onnx": ONNX_SUFFIX, "torchscript": TORCHSCRIPT_SUFFIX}
MISSING_ONNX = "--format=onnx needs onnx and onnxruntime: pip install 'sample-factory-rebuilt[export]'"
OPSET = 18

_BATCHES = (1, 5, 3)  # none of them the size it is traced with
_STEPS = 4
_TOLERANCE = 1e-4  # absolute and relative; runtimes add up in another order
_TIE = 1e-3  # log-probabilities this close are the same to rounding errors
_USER_ERRORS = (EvaluationError, CheckpointError, UnknownEnvError, MissingPackageError)


def export_policy(
    location: Location, output: Path, *, checkpoint: str = "latest", policy_index: int = 0
) -> float:
    """Writes a policy to a `.onnx` or `.pt` file; how far its outputs are from the policy's, at most.

    Raises:
        EvaluationError: there is no policy, a package is missing, or the result is not the same.
    """
    is_onnx = output.suffix == ONNX_SUFFIX
    if is_onnx and any(importlib.util.find_spec(name) is None for name in ("onnx", "onnxruntime")):
        raise EvaluationError(MISSING_ONNX)
    module, signature = load_exportable(location, checkpoint, policy_index)
    encoded = (_to_onnx if is_onnx else _to_torchscript)(module, signature)
    trial = output.with_name(f".trial_{output.name}")
    output.parent.mkdir(parents=True, exist_ok=True)
    trial.write_bytes(encoded)
    try:
        difference = check_parity(Policy(TorchBackend(module), signature), load_policy(trial))
    finally:
        trial.unlink()
    write_durably(output, encoded)
    return difference


def _to_onnx(module: ExportablePolicy, signature: Signature) -> bytes:
    import onnx

    names = [*signature.obs_space, STATE_INPUT]
    file: Any = io.BytesIO()  # which the exporter takes, whatever its annotations say
    with warnings.catch_warnings():
        # Shapes that are checked while tracing are fixed but for the batch; parity is checked with others.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module,
            _example(signature),
            file,
            input_names=names,
            output_names=list(OUTPUTS),
            dynamic_axes={name: {0: "batch"} for name in (*names, *OUTPUTS)},
            opset_version=OPSET,
            dynamo=False,  # the newer exporter needs one package more and gives the same graph
        )
    model = onnx.load_model_from_string(file.getvalue())
    model.metadata_props.add(key=SIGNATURE_KEY, value=signature.to_json())
    onnx.checker.check_model(model)
    encoded: bytes = model.SerializeToString()
    return encoded


def _to_torchscript(module: ExportablePolicy, signature: Signature) -> bytes:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as above
        traced = torch.jit.trace(module, _example(signature), check_trace=False)
        file = io.BytesIO()
        torch.jit.save(traced, file, _extra_files={SIGNATURE_KEY: signature.to_json()})
    return file.getvalue()


def _example(signature: Signature) -> tuple[torch.Tensor, ...]:
    obs = random_observations(signature.obs_space, 2, np.random.default_rng(0))
    states = np.zeros((2, signature.rnn_state_size), np.float32)
    return tuple(torch.from_numpy(array) for array in (*obs.values(), states))


def check_parity(reference: Policy, exported: Policy) -> float:
    """Runs both on the same observations, each with its own memory; the largest difference.

    Raises:
        EvaluationError: they differ by more than rounding errors.
    """
    rng = np.random.default_rng(1)
    worst = 0.0
    for batch_size in _BATCHES:
        states = [policy.reset(batch_size) for policy in (reference, exported)]
        for _ in range(_STEPS):
            obs = random_observations(reference.observation_space, batch_size, rng)
            expected, found = reference.step(obs, states[0]), exported.step(obs, states[1])
            for name in ("action_params", "values", "states"):
                wanted, given = getattr(expected, name), getattr(found, name)
                if wanted.shape != given.shape or not np.allclose(wanted, given, _TOLERANCE, _TOLERANCE):
                    raise EvaluationError(f"The exported policy differs in its {name}; nothing was written.")
                worst = max(worst, float(np.abs(wanted - given).max(initial=0.0)))
            _compare_actions(reference, obs, expected.action_params, (expected.actions, found.actions))
            states = [expected.states, found.states]
    return worst


def _compare_actions(
    policy: Policy, obs: Arrays, params: np.ndarray, actions: tuple[np.ndarray, np.ndarray]
) -> None:
    """Actions are the same but for ties."""
    expected, found = actions
    rows = np.flatnonzero(~np.isclose(expected, found, _TOLERANCE, _TOLERANCE).all(axis=1))
    if len(rows) == 0:
        return
    mask = torch.from_numpy(obs[ACTION_MASK][rows]) if ACTION_MASK in obs else None
    distribution = make_distribution(policy.action_space, torch.from_numpy(params[rows]), mask)
    gap = distribution.log_prob(torch.from_numpy(expected[rows]))
    gap = gap - distribution.log_prob(torch.from_numpy(found[rows]))
    if bool((gap > _TIE).any()):
        raise EvaluationError("The exported policy chooses other actions; nothing was written.")


def random_observations(obs_space: spaces.Dict, batch_size: int, rng: np.random.Generator) -> Arrays:
    """Observations within the bounds of a space, moderate where there are none."""
    return {key: _random_array(key, space, batch_size, rng) for key, space in obs_space.spaces.items()}


def _random_array(key: str, space: Any, batch_size: int, rng: np.random.Generator) -> np.ndarray:
    shape = (batch_size, *space.shape)
    if key == ACTION_MASK:
        return rng.integers(0, 2, shape).astype(space.dtype)
    if not isinstance(space, spaces.Box):
        return rng.integers(0, 2, shape).astype(space.dtype)
    low = np.maximum(space.low.astype(np.float64), -10.0)
    high = np.minimum(space.high.astype(np.float64), np.maximum(low, 0.0) + 255.0)
    values = rng.uniform(low, high, shape)
    return (np.floor(values) if np.issubdtype(space.dtype, np.integer) else values).astype(space.dtype)


def _parser() -> argparse.ArgumentParser:
    parser = policy_parser("sf export", "Write a trained policy as ONNX or TorchScript.")
    parser.add_argument("--format", choices=tuple(SUFFIXES), default="onnx", help="what to write")
    parser.add_argument("--output", type=Path, help="file to write; None is policy.onnx or .pt beside it")
    return parser


def _run(args: argparse.Namespace, say: Callable[[str], Any]) -> None:
    location = policy_location(args)
    output = args.output or location.directory / f"policy{SUFFIXES[args.format]}"
    if output.suffix != SUFFIXES[args.format]:
        raise EvaluationError(
            f"--output={output} must end in {SUFFIXES[args.format]} for --format={args.format}."
        )
    difference = export_policy(location, output, checkpoint=args.iter_num, policy_index=args.policy_index)
    size = output.stat().st_size / 1024
    say(f"{output}: {size:.0f} KB, same outputs as the policy (largest difference {difference:.1e})\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the program; the exit code."""
    args = _parser().parse_args(argv)
    try:
        _run(args, sys.stdout.write)
    except ConfigError as error:
        report_and_exit(error)
    except _USER_ERRORS as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
