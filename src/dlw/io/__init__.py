"""Open and save cubes: one small module per format, found by content first, by name second.

A format is a module with ``NAME``, ``SUFFIXES``, ``sniff``, ``source`` and ``write`` (see
:class:`Format`); adding one means writing it and naming it in ``FORMATS`` (:mod:`dlw.io.formats`).
:func:`open_source` and :func:`create` read and write by windows (see :mod:`dlw.io.source` and
:mod:`dlw.io.sink`), :func:`open_cube` and :func:`save_cube` whole cubes.
"""

from __future__ import annotations

from .atomic import atomic
from .formats import FORMATS, Format
from .opening import describe, open_cube, open_source
from .saving import check_place, check_save, create, save_cube
from .sink import CubeWriter, Pen
from .source import CubeFile

__all__ = [
    "FORMATS",
    "CubeFile",
    "CubeWriter",
    "Format",
    "Pen",
    "atomic",
    "check_place",
    "check_save",
    "create",
    "describe",
    "open_cube",
    "open_source",
    "save_cube",
]
