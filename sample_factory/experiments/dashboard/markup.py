"""HTML that cannot be injected into: text becomes markup only through `element`, which escapes it.

Invariant: a `Markup` was built by this module; every other string is text.
"""

from __future__ import annotations

import html
from collections.abc import Iterable

_VOID = frozenset({"input", "meta", "link", "source", "img", "br"})


class Markup(str):
    """A piece of HTML that is safe to show."""

    __slots__ = ()


Child = str | Markup | Iterable["Child"] | None


def element(tag: str, *children: Child, **attributes: str | bool | None) -> Markup:
    """An element.

    Args:
        tag: its name.
        children: text, elements, or nested sequences of them; None is left out.
        attributes: `class_` is class and `data_x` is data-x; True is an attribute without value, None and
            False leave it out.
    """
    written = "".join(_attribute(name, value) for name, value in attributes.items())
    if tag in _VOID:
        return Markup(f"<{tag}{written}>")
    return Markup(f"<{tag}{written}>{joined(*children)}</{tag}>")


def joined(*children: Child) -> Markup:
    """Pieces side by side."""
    parts = []
    for child in children:
        if child is None:
            continue
        if isinstance(child, Markup):
            parts.append(str(child))
        elif isinstance(child, str):
            parts.append(html.escape(child))
        else:
            parts.append(str(joined(*child)))
    return Markup("".join(parts))


def document(head: Markup, body: Markup) -> str:
    """A whole page."""
    return f'<!DOCTYPE html>\n<html lang="en">\n<head>{head}</head>\n<body>{body}</body>\n</html>\n'


def _attribute(name: str, value: str | bool | None) -> str:
    if value is None or value is False:
        return ""
    written = name.rstrip("_").replace("_", "-")
    return f" {written}" if value is True else f' {written}="{html.escape(str(value), quote=True)}"'
