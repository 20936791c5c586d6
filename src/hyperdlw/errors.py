"""Errors a user can act on: each message says what is wrong, where, and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class DlwError(Exception):
    """Base of every error hyperdlw raises on purpose; the command line prints it as one sentence."""

    exit_code = 2

    def __init__(self, sentence: object) -> None:
        # Names from files go into sentences: one may hold a line end, or what a terminal would obey.
        super().__init__(make_harmless(sentence))


class BadInput(DlwError):
    """The data cannot be used as given (shape, type, range, empty)."""


class BadFile(DlwError):
    """A file cannot be read: missing, truncated, of another format, or ambiguous."""


class BadModel(DlwError):
    """A network file is not a hyperdlw model, or its tensors do not fit its card."""


class BadOption(DlwError):
    """An argument has no meaning here (unknown name, value outside its range)."""


class NothingToDenoise(BadInput):
    """Not one valid, varying band is left."""


class OutputExists(DlwError):
    """The output is there already and overwriting was not asked for."""


class MissingDependency(DlwError):
    """An optional package is needed; the message holds the pip command."""


class OutOfResources(DlwError):
    """Memory or disk space does not suffice; nothing was begun."""

    exit_code = 4


def make_harmless(text: object) -> str:
    r"""A text from a file or a name without what a terminal would obey.

    >>> make_harmless("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(text))


def unknown_name(kind: str, name: str, known: Iterable[str]) -> BadOption:
    """A BadOption for a misspelt name, with the nearest known one.

    >>> str(unknown_name("model", "tvv", ["nn", "tv", "tvs"]))
    "there is no model 'tvv'; did you mean 'tv'? (known: nn, tv, tvs)"
    """
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.4) or difflib.get_close_matches(
        name.lower(), [n.lower() for n in names], n=1, cutoff=0.4
    )
    guess = next((n for n in names if near and n.lower() == near[0].lower()), None)
    hint = f"; did you mean '{guess}'?" if guess else ""
    return BadOption(f"there is no {kind} '{name}'{hint} (known: {', '.join(names)})")
