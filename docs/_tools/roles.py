"""Docstrings as the site shows them: roles such as ``:func:`name` `` become code, doctests blocks."""

from __future__ import annotations

import re
from typing import Any

import griffe

ROLE = re.compile(r":(?:class|func|mod|meth|attr):`~?([^`]+)`")
DOCTEST = re.compile(r"^( *)>>> .*?(?=\n\s*\n|\Z)", re.M | re.S)


def _fenced(found: re.Match[str]) -> str:
    indent = found[1]
    return f"{indent}```pycon\n{found[0].rstrip()}\n{indent}```"


class Roles(griffe.Extension):
    """Works on every docstring before it is parsed."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            text = ROLE.sub(r"`\1`", obj.docstring.value)
            obj.docstring.value = DOCTEST.sub(_fenced, text)
