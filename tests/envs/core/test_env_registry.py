"""Which family a name belongs to."""

import subprocess
import sys
from argparse import ArgumentParser
from pathlib import Path

import pytest

from sample_factory.envs.env_registry import global_env_registry as v1_registry
from sample_factory.envs.families import BUILT_IN_FAMILIES
from sample_factory.envs.registry import (
    EnvFamily,
    EnvRegistry,
    UnknownEnvError,
    family_for,
    global_env_registry,
    register_env,
    register_env_deferred,
    register_family,
    registered_prefixes,
    temporary_registrations,
    unregister,
)

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def forget_registrations():
    with temporary_registrations():
        yield


def make_nothing(full_env_name, cfg=None, env_config=None):
    return full_env_name, cfg, env_config


def test_built_in_prefixes_are_tried_in_v1_order_with_the_new_ones_behind():
    assert tuple(BUILT_IN_FAMILIES)[:6] == ("doom_", "atari_", "dmlab_", "mujoco_", "MiniGrid", "gym_")


def test_no_built_in_prefix_hides_a_later_one():
    prefixes = list(BUILT_IN_FAMILIES)
    hidden = [(a, b) for i, a in enumerate(prefixes) for b in prefixes[i + 1 :] if b.startswith(a)]
    assert hidden == []


def test_a_built_in_family_is_found_by_the_beginning_of_the_name():
    assert family_for("gym_CartPole-v1").prefix == "gym_"


def test_the_first_of_two_matching_registrations_wins():
    register_env("my_", make_nothing)
    register_env("my_env_", make_nothing)
    assert family_for("my_env_1").prefix == "my_"


def test_a_user_registration_wins_over_a_built_in_family():
    register_env("gym_", make_nothing)
    assert family_for("gym_CartPole-v1").make_env("gym_x", "cfg", "where", None) == ("gym_x", "cfg", "where")


def test_registering_a_prefix_again_replaces_it():
    register_env("my_", make_nothing)
    register_env("my_", lambda name, cfg, env_config: "second")
    assert family_for("my_env").make_env("my_env", None, None, None) == "second"


def test_unregistering_shows_the_built_in_family_again():
    register_env("gym_", make_nothing)
    unregister("gym_")
    assert family_for("gym_CartPole-v1").package == "gymnasium"


def test_registered_prefixes_lists_user_families_first_and_each_prefix_once():
    register_env("my_", make_nothing)
    register_env("gym_", make_nothing)
    assert registered_prefixes()[:3] == ("my_", "gym_", "doom_")
    assert registered_prefixes().count("gym_") == 1


def test_temporary_registrations_end_with_the_block():
    with temporary_registrations():
        register_env("my_", make_nothing)
    assert "my_" not in registered_prefixes()


def test_an_empty_prefix_is_refused_because_it_would_match_everything():
    with pytest.raises(ValueError, match="non-empty prefix"):
        register_env("", make_nothing)


def test_a_deferred_family_is_not_made_before_it_is_used():
    calls = []

    def promise():
        calls.append(1)
        return EnvFamily("later_", make_nothing)

    register_env_deferred("later_", promise)
    assert calls == []
    family_for("later_x")
    family_for("later_y")
    assert calls == [1]


def test_a_deferred_function_may_return_the_triple_of_v1():
    def add_flags(env, parser):
        parser.add_argument("--shade", default=3, type=int)

    register_env_deferred("later_", lambda: (make_nothing, add_flags, None))
    family = family_for("later_x")
    assert family.make_env("later_x", 1, 2, "human") == ("later_x", 1, 2)
    assert family.add_flags is add_flags


def test_a_deferred_family_may_be_named_by_module_and_attribute():
    register_env_deferred("cartpoles_", "sample_factory.envs.gym_family:FAMILY")
    family = family_for("cartpoles_x")
    assert family.prefix == "cartpoles_"
    assert family.package == "gymnasium"


def test_a_deferred_module_that_does_not_exist_is_named_in_the_message():
    register_env_deferred("ghost_", "no_such_module.family:FAMILY")
    with pytest.raises(UnknownEnvError, match=r"no_such_module\.family"):
        family_for("ghost_1")


def test_an_import_error_inside_a_deferred_module_is_not_mistaken_for_a_missing_module(tmp_path, monkeypatch):
    (tmp_path / "broken_family.py").write_text("import module_that_is_not_there\n")
    monkeypatch.syspath_prepend(tmp_path)
    register_env_deferred("broken_", "broken_family:FAMILY")
    with pytest.raises(ModuleNotFoundError, match="module_that_is_not_there"):
        family_for("broken_1")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("dooom_basic", "doom_basic"),
        ("Doom_basic", "doom_basic"),
        ("minigrid-Empty-5x5-v0", "MiniGrid-Empty-5x5-v0"),
        ("CartPole-v1", "gym_CartPole-v1"),
        ("mujoko_ant", "mujoco_ant"),
    ],
)
def test_an_unknown_name_gets_a_suggestion(typed, meant):
    with pytest.raises(UnknownEnvError, match=f"did you mean --env={meant}\\?"):
        family_for(typed)


def test_the_message_for_an_unknown_name_lists_prefixes_and_how_to_register():
    with pytest.raises(UnknownEnvError) as caught:
        family_for("zzz")
    message = str(caught.value)
    assert "did you mean" not in message
    assert "doom_, atari_, dmlab_" in message
    assert "register_env(prefix, make_env_func)" in message
    assert message.count("\n") == 0


def test_an_unknown_name_is_a_runtime_error_as_in_v1():
    assert issubclass(UnknownEnvError, RuntimeError)


def test_registrations_can_be_carried_to_another_registry():
    register_env("my_", make_nothing)
    other = EnvRegistry()
    other.restore(global_env_registry().user_registrations())
    assert other.family_for("my_env").make_env("my_env", 1, 2, None) == ("my_env", 1, 2)


def test_v1_scripts_register_through_the_old_import_path():
    def add_flags(env, parser):
        parser.add_argument("--old_flag", type=int, default=5)

    def override(env, parser):
        parser.set_defaults(hidden_size=7)

    v1_registry().register_env(
        env_name_prefix="old_",
        make_env_func=make_nothing,
        add_extra_params_func=add_flags,
        override_default_params_func=override,
    )
    family, parser = family_for("old_env"), ArgumentParser()
    family.add_flags("old_env", parser)
    family.override_defaults("old_env", parser)
    assert vars(parser.parse_args([])) == {"old_flag": 5, "hidden_size": 7}


def test_defaults_may_depend_on_the_environment():
    register_family(
        EnvFamily("my_", make_nothing, defaults=lambda name: {"gamma": 0.9 if "long" in name else 0.5})
    )
    assert family_for("my_long").defaults_for("my_long") == {"gamma": 0.9}
    assert family_for("my_short").defaults_for("my_short") == {"gamma": 0.5}


def test_importing_the_registry_imports_no_gymnasium_and_no_torch():
    code = (
        "import sys; from sample_factory.envs import registry; registry.family_for('gym_CartPole-v1'); "
        "print([m for m in ('gymnasium', 'torch', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
