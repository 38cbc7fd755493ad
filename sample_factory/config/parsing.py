"""From a command line to a `Config`.

Parsing takes two passes: the first finds out which algorithm and environment are meant, because these decide
which flags exist; the second reads all flags and accepts no others. Every entry point starts here, and so do
scripts with flags of their own: `arg_parser`, then `parser.add_argument`, then `parse_args`.
Invariant: nothing heavier than the standard library is imported on the way.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from sample_factory.config import settings_experiment
from sample_factory.config.cfg_files import with_cfg_file
from sample_factory.config.config import Config
from sample_factory.config.errors import ConfigError, report_and_exit
from sample_factory.config.families import lookup_family
from sample_factory.config.precedence import with_recurrence
from sample_factory.config.provenance import git_identity
from sample_factory.config.redaction import redacted_command_line
from sample_factory.config.setting import Setting
from sample_factory.config.table import canonical_names, settings_for
from sample_factory.config.unknown_flags import explain_unknown

NO_FAMILY = "env"  # the environment name of `default_cfg`: any environment, no family


class SettingsParser(argparse.ArgumentParser):
    """An argparse parser that is filled from settings and reports errors in one sentence."""

    def __init__(self) -> None:
        super().__init__(
            usage="%(prog)s --env=ENV [--flag=value ...]",
            formatter_class=argparse.ArgumentDefaultsHelpFormatter,
            add_help=False,
        )
        self.aliases: dict[str, str] = {}
        self._headings: dict[str, argparse._ArgumentGroup] = {}

    def add_settings(self, settings: Sequence[Setting], heading: str = "") -> None:
        """Declare flags, each under the heading of whoever reads it."""
        for setting in settings:
            setting.add_to(self._under(setting.group or heading))
        self.aliases |= canonical_names(settings)

    def add_help_flag(self) -> None:
        """Declare -h/--help as an ordinary flag, so that it is looked at when all flags are known."""
        self._under("experiment").add_argument(
            "-h", "--help", action="store_true", default=False, help="Show this text."
        )

    def set_defaults(self, **values: Any) -> None:
        """Change defaults, also under the aliases of settings; undeclared names end up in the result."""
        super().set_defaults(**{self.aliases.get(name, name): value for name, value in values.items()})

    def error(self, message: str) -> NoReturn:
        """Leave with exit code 2 and one sentence, without the long list of flags."""
        report_and_exit(ConfigError(message.removeprefix("argument ")))

    def _under(self, heading: str) -> argparse._ArgumentGroup:
        if heading not in self._headings:
            self._headings[heading] = self.add_argument_group(heading)
        return self._headings[heading]


def arg_parser(argv: Sequence[str] | None = None, evaluation: bool = False) -> argparse.ArgumentParser:
    """The parser for the algorithm and environment that a command line names.

    Args:
        argv: the command line without the program's name; the program's own when None.
        evaluation: whether the flags for evaluating a trained policy exist.
    """
    first = _first_pass(_arguments(argv))
    return _make_parser(first.algo, first.env, evaluation)


def parse_args(
    argv: Sequence[str] | None = None,
    evaluation: bool = False,
    parser: argparse.ArgumentParser | None = None,
) -> Config:
    """Parse a command line strictly; exits with a sentence when it is wrong, and after showing help.

    Args:
        argv: the command line without the program's name; the program's own when None.
        evaluation: whether the flags for evaluating a trained policy exist.
        parser: the result of `arg_parser`, possibly with flags added.
    """
    argv = list(sys.argv[1:] if argv is None else argv)
    parser = parser or arg_parser(argv, evaluation)
    tokens = _without_aliases(_arguments(argv), parser)
    cfg, unknown = parser.parse_known_args(tokens, Config())
    if vars(cfg).pop("help", False):
        parser.print_help()
        parser.exit(0)
    problems = _missing_env(cfg) + explain_unknown(
        unknown, list(parser._option_string_actions), cfg.get("algo")
    )
    if problems:
        report_and_exit(ConfigError(problems))
    cfg.cli_args = _typed(parser, tokens, cfg)
    cfg.command_line = redacted_command_line(argv, cfg.cli_args)
    cfg.git_hash, cfg.git_repo_name = git_identity(Path.cwd())
    return with_recurrence(cfg)


def default_cfg(algo: str = "APPO", env: str = NO_FAMILY, experiment: str = "test") -> Config:
    """The configuration when nothing but these three is typed; without `env`, no family has a say."""
    argv = [f"--algo={algo}", f"--env={env}", f"--experiment={experiment}"]
    return parse_args(argv, parser=_make_parser(algo, None if env == NO_FAMILY else env, evaluation=False))


def _arguments(argv: Sequence[str] | None) -> list[str]:
    """The command line with what `--cfg_file` holds; a wrong file ends the program like a wrong flag."""
    try:
        return with_cfg_file(sys.argv[1:] if argv is None else argv)
    except ConfigError as error:
        report_and_exit(error)


def _first_pass(argv: list[str]) -> Config:
    parser = SettingsParser()
    parser.add_settings(settings_experiment.IDENTITY)
    parser.add_help_flag()
    return parser.parse_known_args(argv, Config())[0]


def _make_parser(algo: str, env: str | None, evaluation: bool) -> SettingsParser:
    parser = SettingsParser()
    parser.add_settings(settings_for(algo, evaluation))
    parser.add_help_flag()
    if env is not None:
        try:
            _apply_family(parser, env)
        except ConfigError as error:
            report_and_exit(error)
    return parser


def _apply_family(parser: SettingsParser, env: str) -> None:
    """Add the family's flags, then change defaults: overrides may concern the family's own flags too."""
    family, defaults = lookup_family(env)
    parser.add_settings(family.settings, heading=f"environments {family.prefix}*")
    if family.add_flags:
        family.add_flags(env, parser)
    parser.set_defaults(**defaults)
    if family.override_defaults:
        family.override_defaults(env, parser)


def _without_aliases(argv: list[str], parser: argparse.ArgumentParser) -> list[str]:
    aliases = {f"--{alias}": f"--{name}" for alias, name in getattr(parser, "aliases", {}).items()}
    split = (token.partition("=") for token in argv)
    return [aliases.get(flag, flag) + separator + value for flag, separator, value in split]


def _missing_env(cfg: Config) -> list[str]:
    if cfg.get("env") is not None:
        return []
    return ["--env is missing: name an environment, for example --env=doom_basic."]


def _typed(parser: argparse.ArgumentParser, argv: list[str], cfg: Config) -> dict[str, Any]:
    """What was really typed. argparse leaves attributes alone that exist already, so defaults stay None."""
    without_defaults = Config(**dict.fromkeys(vars(cfg)))
    typed, _ = parser.parse_known_args(argv, without_defaults)
    return {name: value for name, value in vars(typed).items() if value is not None and name != "help"}
