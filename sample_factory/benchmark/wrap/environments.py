"""Environments that report to the recorder, and the patches that put them and the loggers in place.

While `recording` lasts, `gymnasium.make` (and the old `gym.make`, if that is installed) returns a
`RecordedEnv`, below any wrapper the script adds. `tee_loggers` does the same to `log` methods of classes
called Logger, cherry's among them.

Invariant: what the script sees of its environments does not change, and after `recording` every patch is
gone.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any

import gymnasium
import gymnasium.envs.registration
import numpy as np

from sample_factory.benchmark.wrap.recorder import Recorder

OnFrame = Callable[[Any], None]  # is called with the environment after each reset and step
_LOGGER = "Logger"
_CHERRY_LOGGERS = ("cherry.envs", "cherry.envs.logger_wrapper")


class RecordedEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Reports rewards and episodes; otherwise it is the environment itself.

    Steps of the old interface, `(obs, reward, done, info)`, are understood as well.
    """

    def __init__(self, env: Any, recorder: Recorder, remake: Callable[[str], Any]) -> None:
        super().__init__(env)
        self._recorder = recorder
        self._remake = remake
        self._index = recorder.new_env()
        self._length, self._return = 0, 0.0
        self.on_frame: OnFrame | None = None
        self.finished: list[tuple[float, int]] = []  # return and length of every episode, also of tests

    def reset(self, **options: Any) -> Any:
        """Starts an episode."""
        self._length, self._return = 0, 0.0
        result = self.env.reset(**options)
        self._show()
        return result

    def step(self, action: Any) -> Any:
        """Takes a step."""
        result = self.env.step(action)
        reward = float(np.asarray(result[1]).sum())
        done = bool(np.any(result[2])) or (len(result) == 5 and bool(np.any(result[3])))
        self._length += 1
        self._return += reward
        self._recorder.step(self._index, reward, done)
        self._show()
        if done:
            self.finished.append((self._return, self._length))
            self._recorder.episode(self._index, self._length, self._return)
            self._length, self._return = 0, 0.0
        return result

    @contextmanager
    def filmed(self, on_frame: OnFrame) -> Iterator[None]:
        """Puts a copy of the environment that draws pictures in the place of the real one."""
        original, self.env = self.env, self._remake("rgb_array")
        self.on_frame = on_frame
        try:
            yield
        finally:
            self.env.close()
            self.env, self.on_frame = original, None

    def _show(self) -> None:
        if self.on_frame is not None:
            self.on_frame(self.env)


@contextmanager
def recording(recorder: Recorder) -> Iterator[None]:
    """Makes every environment that is created a `RecordedEnv`."""
    with ExitStack() as patches:
        for module in (gymnasium, gymnasium.envs.registration, *_old_gym()):
            patches.enter_context(_replaced(module, "make", _recording_make(module.make, recorder)))
        yield


@contextmanager
def tee_loggers(namespace: Mapping[str, Any], recorder: Recorder) -> Iterator[None]:
    """Copies `log(key, value)` of every Logger class that the script can use, then calls the original."""
    tee = _Tee(recorder)
    with ExitStack() as patches:
        for logger_class in _logger_classes(namespace):
            patches.enter_context(_replaced(logger_class, "log", tee.around(vars(logger_class)["log"])))
        yield


def recorded_env(env: Any) -> RecordedEnv | None:
    """The recorded environment below the wrappers of a script, if there is one."""
    seen: set[int] = set()
    while env is not None and id(env) not in seen:
        if isinstance(env, RecordedEnv):
            return env
        seen.add(id(env))
        # Wrappers that forward unknown attributes may forward this one too, hence the set.
        env = vars(env).get("env") if hasattr(env, "__dict__") else None
    return None


def _recording_make(make: Callable[..., Any], recorder: Recorder) -> Callable[..., Any]:
    @functools.wraps(make)
    def recording_make(env_id: Any, *args: Any, **kwargs: Any) -> Any:
        def remake(render_mode: str) -> Any:
            return make(env_id, *args, **{**kwargs, "render_mode": render_mode})

        env = make(env_id, *args, **kwargs)
        # Wrapping twice would count twice: make_vec calls the patched make by itself.
        return env if recorded_env(env) is not None else RecordedEnv(env, recorder, remake)

    return recording_make


def _old_gym() -> list[Any]:
    if importlib.util.find_spec("gym") is None:
        return []
    import gym

    return [gym]


def _logger_classes(namespace: Mapping[str, Any]) -> set[type]:
    """Classes called Logger, their parents' and children's `log` included, that a script has at hand."""
    modules = [value for value in namespace.values() if isinstance(value, ModuleType)]
    modules += [sys.modules[name] for name in _CHERRY_LOGGERS if name in sys.modules]
    values = [*namespace.values(), *(value for module in modules for value in vars(module).values())]
    at_hand = {base for value in values if isinstance(value, type) for base in value.__mro__}
    loggers = {one for one in at_hand if any(base.__name__ == _LOGGER for base in one.__mro__)}
    # logging.Logger.log(level, message) is another kind of log.
    return {one for one in loggers if callable(vars(one).get("log")) and one.__module__ != "logging"}


class _Tee:
    """Replaces `log` methods; a subclass that calls its parent's `log` is recorded once."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._depth = 0

    def around(self, log: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(log)
        def teed(logger: Any, *args: Any, **kwargs: Any) -> Any:
            if self._depth == 0 and len(args) == 2 and isinstance(args[0], str):
                self._recorder.log({args[0]: args[1]}, getattr(logger, "num_steps", None))
            self._depth += 1
            try:
                return log(logger, *args, **kwargs)
            finally:
                self._depth -= 1

        return teed


@contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    original = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, original)
