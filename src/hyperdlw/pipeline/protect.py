"""What must not be smoothed away: spectra, and pixels.

With y the image, x its restoration and r = y - x what was taken away, protected spectra S (as rows) get back
what r has of them, and what a matched filter finds in it. With C the covariance of the bands of y and N that
of the noise (diagonal), the filter is  S C^-1,  and

    x'  =  x + P r,      P the projection on the rows of S and of S C^-1 N, orthogonal in N^-1 .

So  S C^-1 x' = S C^-1 y:  a matched filter with these statistics finds in the result what it finds in the
input. What r has of S itself comes back whole, and of the noise no more than two directions for a spectrum.

C and N are those of the sample of blocks, so strips give the same numbers. Voxels that are lost (impulses,
dead columns) have no part in r where C does not know of them: six standard deviations from what the other
bands say, and not explained by the spectra. Protected pixels come back as measured.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from ..errors import BadOption
from ..io import Curve, is_spectra, make_curve, open_cube, read_spectra
from .sample import Sample

Protect = str | PathLike[str] | ArrayLike | Sequence[object] | None
"""A spectrum, a mask or a region, or several of them."""
BOX = re.compile(r"\s*(\d+)\s*:\s*(\d+)\s*,\s*(\d+)\s*:\s*(\d+)\s*")
LOADING = 1e-6
"""Part of the mean variance that is added to the diagonal of the covariance."""
ALIKE = 1e-8
"""Share of a spectrum that the others must leave of it."""
SAME = 1e-5
"""Part of a direction below which it is one of the others."""
EXPLAINED = 0.25
"""Share of the energy of outliers of a pixel up to which protected spectra explain them."""
UNKNOWN = 6.0
"""Standard deviations, given the other bands, up to which the covariance knows of an outlier: where impulses
are many, the filter already trusts their bands less, and leaving them out would change what it finds."""


class Box(NamedTuple):
    """Rows and columns from the first to the one before the last, counted from 0."""

    top: int
    bottom: int
    left: int
    right: int

    @property
    def text(self) -> str:
        return f"{self.top}:{self.bottom},{self.left}:{self.right}"


class Mask(NamedTuple):
    """Pixels (row, col) of a name."""

    name: str
    pixels: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Protection:
    """What a user asks to protect; it is fitted to a cube when that is known.

    As text it is a digest of everything in it, for the journal of a run.
    """

    curves: tuple[Curve, ...] = ()
    masks: tuple[Mask, ...] = ()
    boxes: tuple[Box, ...] = ()

    def __str__(self) -> str:
        total = hashlib.sha256()
        for c in self.curves:
            total.update(c.values.tobytes())
            total.update(b"" if c.wavelengths is None else c.wavelengths.tobytes())
        for m in self.masks:
            total.update(repr(m.pixels.shape).encode() + np.packbits(m.pixels).tobytes())
        return f"{len(self.curves)} {[*self.boxes]} {total.hexdigest()}"

    def fit(
        self, shape: Sequence[int], wavelengths: ArrayLike | None
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Spectra (n, band) at all bands of a cube (band, row, col), and pixels (row, col)."""
        bands, rows, cols = shape
        spectra = [c.resample(wavelengths, bands) for c in self.curves]
        pixels = np.zeros((rows, cols), bool)
        for name, mask in self.masks:
            if mask.shape != (rows, cols):
                held = "x".join(map(str, mask.shape))
                raise BadOption(f"the mask '{name}' has {held} pixels and the cube {rows}x{cols}")
            pixels |= mask
        for box in self.boxes:
            if box.bottom > rows or box.right > cols:
                raise BadOption(
                    f"the region {box.text} (rows,columns) reaches beyond the cube of {rows}x{cols} pixels"
                )
            pixels[box.top : box.bottom, box.left : box.right] = True
        return np.array(spectra, np.float64).reshape(len(spectra), bands), pixels


def parse_protection(given: Protect) -> Protection | None:
    """What is to be protected, from names of files, regions such as "10:20,30:50", and arrays.

    An array of one axis is a spectrum with a value for every band; one of two axes, of bool or 0 and 1, is a
    mask (row, col).
    """
    if given is None:
        return None
    curves: list[Curve] = []
    masks: list[Mask] = []
    boxes: list[Box] = []
    parts = given if isinstance(given, list | tuple) and not _is_numbers(given) else [given]
    for part in parts:
        if isinstance(part, str | PathLike):
            found = parse_text(str(part))
        else:
            found = parse_array(part, len(curves) + len(masks) + 1)
        curves += [f for f in found if isinstance(f, Curve)]
        masks += [f for f in found if isinstance(f, Mask)]
        boxes += [f for f in found if isinstance(f, Box)]
    if not (curves or masks or boxes):
        raise BadOption("there is nothing to protect; give a spectrum, a mask or a region")
    return Protection(tuple(curves), tuple(masks), tuple(boxes))


def _is_numbers(given: Sequence[object]) -> bool:
    return len(given) > 0 and all(isinstance(v, int | float | np.number) for v in given)


def parse_text(text: str) -> Sequence[Curve | Mask | Box]:
    """A region, a file of spectra, or a file with a mask."""
    if match := BOX.fullmatch(text):
        box = Box(*(int(v) for v in match.groups()))
        if box.top >= box.bottom or box.left >= box.right:
            raise BadOption(
                f"the region '{text}' is empty; give ROW:ROW,COL:COL, smaller ones first"
            )
        return [box]
    path = Path(text)
    if path.is_file() and is_spectra(path):
        return read_spectra(path)
    if not path.exists():
        raise BadOption(
            f"'{text}' is neither a file nor a region ROW:ROW,COL:COL; give a spectrum (.sli, .csv), a "
            "mask or a region"
        )
    cube = open_cube(path)
    if cube.bands != 1:
        raise BadOption(
            f"{text} has {cube.bands} bands; a mask has one, and spectra are .sli or .csv"
        )
    return [Mask(path.name, (cube.data[0] != 0) & cube.valid[0])]


def parse_array(given: object, number: int) -> Sequence[Curve | Mask | Box]:
    """A spectrum or a mask in memory."""
    values = np.asarray(given)
    if values.ndim == 1 and values.dtype.kind in "fiu":
        return [make_curve(f"spectrum {number}", values)]
    if values.ndim == 2 and (values.dtype.kind == "b" or np.isin(values, (0, 1)).all()):
        return [Mask(f"mask {number}", values.astype(bool))]
    raise BadOption(
        "protect takes a path, a region such as '10:20,30:50', a spectrum (band,) or a mask (row, col)"
    )


@dataclass(frozen=True, eq=False)
class Keeper:
    """What is protected in the image of a run.

    Attributes:
        spectra: (n, band) of the bands in use, on the unit scale.
        reader: (n, band) what reads matched-filter amplitudes off a residual: (S C^-1 S')^-1 S C^-1.
        basis: (k, band) orthonormal rows, of what comes back, in standard deviations of the noise.
        level: (band, 1, 1) of the noise.
        apart: (band, 1, 1) standard deviation of a band given the others, by the covariance.
        pixels: (row, col) that come back as measured.
        names: of the spectra.
    """

    spectra: Tensor
    reader: Tensor
    basis: Tensor
    level: Tensor
    apart: Tensor
    pixels: NDArray[np.bool_]
    names: tuple[str, ...] = ()

    @classmethod
    def learn(
        cls,
        asked: Protection,
        fitted: tuple[NDArray[np.float64], NDArray[np.bool_]],
        use: NDArray[np.bool_],
        span: NDArray[np.float32],
        sample: Sample,
    ) -> Keeper:
        """From what is asked for, fitted to it; ``use``: bands that take part, ``span`` their ranges."""
        spectra, pixels = fitted
        names = tuple(c.name for c in asked.curves)
        s = torch.from_numpy(spectra[:, use] / span.reshape(-1).astype(np.float64))
        if not len(s):
            return cls(*(s.float(),) * 5, pixels)
        if (lonely := s.abs().amax(1) == 0).any():
            name = names[int(lonely.nonzero()[0])]
            raise BadOption(f"the spectrum '{name}' is 0 in all bands that take part")
        inverse = torch.linalg.inv(find_covariance(sample))
        pull = s @ inverse
        gram = pull @ s.T
        scale = gram.diagonal().rsqrt()
        if float(torch.linalg.eigvalsh(gram * scale * scale[:, None])[0]) < ALIKE:
            raise BadOption("protected spectra must differ: one of them is a mixture of the others")
        level = sample.law.level.double()
        level = level.clamp_min(max(1e-4 * float(level.max()), 1e-7))
        rows = torch.cat([s / level, pull * level])
        _, size, basis = torch.linalg.svd(
            rows / rows.norm(dim=1, keepdim=True), full_matrices=False
        )
        reader, seen = torch.linalg.solve(gram, pull), basis[size > SAME * size[0]]
        own, apart = (v[:, None, None].float() for v in (level, inverse.diagonal().rsqrt()))
        return cls(s.float(), reader.float(), seen.float(), own, apart, pixels, names)

    @cached_property
    def keeps_spectra(self) -> bool:
        return len(self.spectra) > 0

    def keep(self, y: Tensor, x: Tensor, lost: Tensor) -> tuple[Tensor, Tensor]:
        """Rows of the result with the protected spectra, and the sums (n,) over their pixels of the squared
        amplitudes that come back."""
        left = torch.where(y.isnan(), x, y) - x
        # Strong lines in few bands look like impulses. They are none where the spectra explain them.
        rest = left - torch.tensordot(self.spectra.T, torch.tensordot(self.reader, left, 1), 1)
        over, all_of_it = (v.square().masked_fill(~lost, 0.0).sum(0) for v in (rest, left))
        foreign = lost & (over > EXPLAINED * all_of_it) & (left.abs() > UNKNOWN * self.apart)
        left = left.masked_fill(foreign, 0.0)
        total = torch.tensordot(self.reader, left, 1).double().square().sum((1, 2))
        back = torch.tensordot(self.basis.T, torch.tensordot(self.basis, left / self.level, 1), 1)
        return x + back * self.level, total

    def describe(self, total: Tensor | None) -> dict[str, object]:
        """For the report: root mean square of what came back of every spectrum, in its own unit."""
        found: dict[str, object] = {"pixels": int(self.pixels.sum())}
        count = max(1, self.pixels.size)
        back = torch.zeros(len(self.names)) if total is None else (total / count).sqrt()
        found["spectra"] = {n: float(v) for n, v in zip(self.names, back, strict=True)}
        return found


def find_covariance(sample: Sample) -> Tensor:
    """(band, band) covariance of an image from its sample; where pixels are whole, or the median fills in."""
    y, ok = sample.y.flatten(1).double(), sample.ok.flatten(1)
    mean = (y.nan_to_num(0.0) * ok).sum(1) / ok.sum(1).clamp_min(1)
    away = torch.where(ok, y - mean[:, None], torch.zeros_like(y))
    found = away @ away.T / max(1, y.shape[1])
    load = LOADING * float(found.diagonal().mean()) + 1e-12
    return found + load * torch.eye(len(found), dtype=found.dtype)
