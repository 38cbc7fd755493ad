import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from gymnasium import spaces

import sample_factory
from sample_factory.config.config import experiment_dir
from sample_factory.config.experiment_files import save_cfg
from sample_factory.config.parsing import parse_args
from sample_factory.envs.space_files import space_from_json, space_to_json
from sample_factory.evaluation.errors import EvaluationError
from sample_factory.evaluation.export import check_parity, export_policy, main, random_observations
from sample_factory.evaluation.policy import SPACES_FILE, Policy, PolicyStep, Signature, load_policy
from sample_factory.evaluation.source import locate
from sample_factory.model.actor_critic import make_actor_critic
from sample_factory.model.checkpoints import CheckpointStore

VECTOR = spaces.Box(-np.inf, np.inf, (5,), np.float32)
PICTURE = spaces.Box(0, 255, (3, 36, 36), np.uint8)
MLP = ("--encoder_type=mlp", "--encoder_subtype=mlp_mujoco")
TUPLE = spaces.Tuple((spaces.Discrete(3), spaces.Discrete(2), spaces.Box(-1, 1, (2,), np.float32)))
CONV = ("--encoder_type=conv", "--encoder_subtype=convnet_impala", "--encoder_extra_fc_layers=0")
CASES = {
    "conv": ({"obs": PICTURE}, spaces.Discrete(4), (*CONV, "--use_rnn=False", "--obs_scale=255.0")),
    "gru": ({"obs": VECTOR}, spaces.Discrete(3), (*MLP, "--use_rnn=True", "--rnn_type=gru")),
    "lstm": (
        {"obs": VECTOR},
        spaces.MultiDiscrete([2, 5]),
        (*MLP, "--use_rnn=True", "--rnn_type=lstm", "--rnn_num_layers=2"),
    ),
    "continuous": (
        {"obs": VECTOR},
        spaces.Box(-2, 2, (3,), np.float32),
        (*MLP, "--use_rnn=False", "--normalize_input=True", "--normalize_returns=True"),
    ),
    "tuple": (
        {"obs": VECTOR},
        TUPLE,
        (*MLP, "--use_rnn=True", "--actor_critic_share_weights=False", "--adaptive_stddev=False"),
    ),
    "uneven_mask": (
        {"obs": VECTOR, "action_mask": spaces.Box(0, 1, (6,), np.int8)},
        spaces.MultiDiscrete([2, 4]),
        (*MLP, "--use_rnn=False"),
    ),
    "mask": (
        {"obs": VECTOR, "action_mask": spaces.Box(0, 1, (6,), np.int8)},
        spaces.Discrete(6),
        (*MLP, "--use_rnn=False"),
    ),
}


@pytest.fixture(scope="module", params=list(CASES))
def case(request, tmp_path_factory):
    """An experiment with random weights; its directory, settings and network."""
    return make_experiment(tmp_path_factory.mktemp("export"), request.param)


def make_experiment(folder, name):
    observations, action_space, flags = CASES[name]
    obs_space = spaces.Dict(observations)
    argv = ["--env=nowhere", f"--train_dir={folder}", f"--experiment={name}", "--hidden_size=16"]
    from sample_factory.envs.registry import register_env, temporary_registrations

    with temporary_registrations():
        register_env("nowhere", lambda *args: None)
        cfg = parse_args([*argv, *flags, "--with_vtrace=False", "--recurrence=1", "--device=cpu"])
    torch.manual_seed(7)
    model = make_actor_critic(cfg, obs_space, action_space)
    for parameter in model.parameters():  # heads start near 0, where every policy is the same
        parameter.data += 0.2 * torch.randn_like(parameter)
    rng = np.random.default_rng(3)
    if cfg.normalize_input:
        seen = 3.0 + 10.0 * rng.standard_normal((64, 5)).astype(np.float32)
        model.update_obs_normalizers({"obs": torch.from_numpy(seen)})
    if cfg.normalize_returns:
        model.returns_normalizer.update(torch.from_numpy(50.0 + 20.0 * rng.standard_normal(64)))
    save_cfg(cfg)
    directory = experiment_dir(cfg)
    (directory / SPACES_FILE).write_text(Signature(obs_space, action_space, model.rnn_state_size).to_json())
    CheckpointStore(directory / "checkpoint_p0").save(
        {"model": model.state_dict()}, policy_version=1, env_steps=10
    )
    return SimpleNamespace(directory=directory, model=model.eval(), name=name)


def play(policy, steps=3, batch=4):
    rng = np.random.default_rng(11)
    states = policy.reset(batch)
    found = []
    for _ in range(steps):
        obs = random_observations(policy.observation_space, batch, rng)
        step = policy.step(obs, states)
        states = step.states
        found.append((obs, step))
    return found


def test_load_policy_computes_what_the_network_computes(case):
    states = torch.zeros(4, case.model.rnn_state_size)
    for obs, step in play(load_policy(case.directory)):
        tensors = {key: torch.from_numpy(array) for key, array in obs.items()}
        with torch.no_grad():
            expected = case.model.act(tensors, states)
            mode = case.model.action_distribution(expected.action_params, tensors).mode()
        states = expected.rnn_states
        np.testing.assert_allclose(step.action_params, expected.action_params.numpy(), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(step.values, expected.values.numpy(), rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(step.states, states.numpy(), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(step.actions, mode.numpy(), rtol=1e-4, atol=1e-5)


def test_onnxruntime_computes_the_same_with_any_batch(case, tmp_path):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    file = tmp_path / "policy.onnx"
    assert export_policy(locate(case.directory), file) < 1e-3
    for (_, given), (_, wanted) in zip(
        play(load_policy(file), batch=7), play(load_policy(case.directory), batch=7), strict=True
    ):
        np.testing.assert_allclose(given.action_params, wanted.action_params, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(given.values, wanted.values, rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(given.states, wanted.states, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(given.actions, wanted.actions, rtol=1e-3, atol=1e-4)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["policy.onnx"]


def test_torchscript_computes_the_same(case, tmp_path):
    file = tmp_path / "policy.pt"
    assert export_policy(locate(case.directory), file) < 1e-3
    (_, given), (_, wanted) = (play(load_policy(path), steps=1)[0] for path in (file, case.directory))
    np.testing.assert_allclose(given.action_params, wanted.action_params, rtol=1e-4, atol=1e-5)


@pytest.fixture
def gru(tmp_path):
    return make_experiment(tmp_path, "gru")


def test_one_observation_gives_one_action_and_its_memory(gru):
    policy = load_policy(gru.directory)
    obs = np.linspace(-1, 1, 5)  # float64, as many environments give
    action, state = policy.act(obs, policy.reset())
    assert action in (0, 1, 2)
    assert state.shape == (16,)
    _, later = policy.act(obs, state)
    assert not np.allclose(state, later)
    again, _ = policy.act(obs)  # without a state an episode begins
    assert again == action


def test_a_batch_gives_a_list_of_actions_and_the_same_ones(gru):
    policy = load_policy(gru.directory)
    obs = np.random.default_rng(0).standard_normal((6, 5), np.float32)
    actions, states = policy.act(obs, policy.reset(6))
    assert actions == [policy.act(row)[0] for row in obs]
    assert states.shape == (6, 16)


def test_actions_can_be_sampled_and_repeated(gru):
    obs = np.zeros((64, 5), np.float32)

    def sampled(seed):
        return load_policy(gru.directory, seed=seed).act(obs, deterministic=False)[0]

    assert sampled(1) == sampled(1)
    assert len(set(sampled(1))) > 1


def test_forbidden_actions_are_never_taken(tmp_path):
    policy = load_policy(make_experiment(tmp_path, "mask").directory)
    obs = np.random.default_rng(0).standard_normal((32, 5), np.float32)
    mask = np.zeros((32, 6), np.int8)
    mask[:, 4] = 1
    for deterministic in (True, False):
        actions, _ = policy.act({"obs": obs, "action_mask": mask}, deterministic=deterministic)
        assert actions == [4] * 32


def test_tuple_actions_come_as_tuples(tmp_path):
    action, _ = load_policy(make_experiment(tmp_path, "tuple").directory).act(np.zeros(5))
    assert (type(action), action[2].shape) == (tuple, (2,))


def test_an_observation_of_the_wrong_shape_is_refused(gru):
    with pytest.raises(ValueError, match=r"has shape \(4,\), but \(5,\)"):
        load_policy(gru.directory).act(np.zeros(4))


def test_a_policy_that_computes_something_else_is_not_written(gru):
    policy = load_policy(gru.directory)
    signature = Signature(policy.observation_space, policy.action_space, policy.rnn_state_size)

    def off_by_a_little(obs, states):
        step = policy.step(obs, states)
        return PolicyStep(step.actions, step.action_params, step.values + 0.01, step.states)

    def other_actions(obs, states):
        step = policy.step(obs, states)
        return PolicyStep((step.actions + 1) % 3, step.action_params, step.values, step.states)

    with pytest.raises(EvaluationError, match="differs in its values"):
        check_parity(policy, Policy(off_by_a_little, signature))
    with pytest.raises(EvaluationError, match="chooses other actions"):
        check_parity(policy, Policy(other_actions, signature))


def test_the_command_writes_beside_the_experiment(gru, capsys):
    flags = [f"--train_dir={gru.directory.parent}", "--experiment=gru", "--format=torchscript"]
    assert main(flags) == 0
    assert str(gru.directory / "policy.pt") in capsys.readouterr().out
    assert load_policy(gru.directory / "policy.pt").rnn_state_size == 16


def test_what_cannot_be_exported_is_one_sentence(gru, capsys, monkeypatch):
    assert main(["--train_dir=/no/where", "--experiment=x"]) == 1
    assert capsys.readouterr().err.startswith("error: There is no policy at /no/where/x")
    assert main([f"--model_path={gru.directory}", "--format=onnx", "--output=policy.pt"]) == 1
    assert "must end in .onnx" in capsys.readouterr().err
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main([f"--model_path={gru.directory}"]) == 1
    assert "pip install 'sample-factory-rebuilt[export]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(np.array([-np.inf, 0], np.float32), np.array([1, np.inf], np.float32), dtype=np.float32),
        PICTURE,
        TUPLE,
        spaces.MultiBinary(4),
        spaces.MultiDiscrete([2, 3]),
        spaces.Discrete(3, start=2),
        spaces.Dict({"z": VECTOR, "a": PICTURE}),
    ],
    ids=str,
)
def test_spaces_survive_json(space):
    back = space_from_json(space_to_json(space))
    assert back == space
    if isinstance(space, spaces.Dict):
        assert list(back) == list(space)


def test_the_package_offers_load_policy_without_importing_torch():
    assert sample_factory.load_policy is load_policy
    code = "import sys, sample_factory; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
