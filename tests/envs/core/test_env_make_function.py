"""Constructors of any generation are called with what they take."""

import pickle

import pytest

from sample_factory.envs.make_function import adapt_make_function

CALL = ("name", "cfg", "where", "human")


def v1_style(full_env_name, cfg=None, env_config=None):
    return full_env_name, cfg, env_config


def v2_style(full_env_name, cfg=None, env_config=None, render_mode=None):
    return full_env_name, cfg, env_config, render_mode


def test_a_v1_function_is_not_told_how_to_render():
    assert adapt_make_function(v1_style)(*CALL) == ("name", "cfg", "where")


def test_a_v2_function_is_told_how_to_render():
    assert adapt_make_function(v2_style)(*CALL) == CALL


def test_required_arguments_with_other_names_are_filled_in_order():
    assert adapt_make_function(lambda a, b, c: (a, b, c))(*CALL) == ("name", "cfg", "where")


def test_own_and_known_names_may_be_mixed():
    assert adapt_make_function(lambda name, cfg, position: (name, cfg, position))(*CALL) == CALL[:3]
    assert adapt_make_function(lambda name, render_mode, config: (name, render_mode, config))(*CALL) == (
        "name",
        "human",
        "cfg",
    )


def test_keyword_only_arguments_are_passed_by_name():
    def make(name, *, env_config, cfg):
        return name, cfg, env_config

    assert adapt_make_function(make)(*CALL) == CALL[:3]


def test_a_function_with_kwargs_gets_what_v1_passed():
    assert adapt_make_function(lambda name, **kwargs: kwargs)(*CALL) == {"cfg": "cfg", "env_config": "where"}


def test_arguments_with_defaults_of_their_own_are_left_alone():
    assert adapt_make_function(lambda name, cfg, size=9: (name, cfg, size))(*CALL) == ("name", "cfg", 9)


def test_a_function_of_the_name_alone_is_enough():
    assert adapt_make_function(lambda name: name)(*CALL) == "name"


def test_an_argument_nobody_can_fill_is_reported_when_registering():
    with pytest.raises(TypeError, match="'level'"):
        adapt_make_function(lambda name, cfg, env_config, render_mode, level: None)


def test_an_adapted_function_survives_pickling():
    assert pickle.loads(pickle.dumps(adapt_make_function(v2_style)))(*CALL) == CALL


def test_adapting_twice_changes_nothing():
    once = adapt_make_function(v1_style)
    assert adapt_make_function(once) is once
