"""What comes out beside the restored cube: weights, flags, invented voxels, report, picture, page."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from .. import io
from ..cube import Cube, Encoding
from ..io import CubeReader, atomic, to_json
from .advice import dead_lines, far_off, striped_lines
from .audit_page import Dossier, write_page
from .job import Job, RestoredStrip
from .look import Look, shrink_job, shrink_result
from .noise_file import write_noise
from .pictures import draw_quicklook
from .prepare import Range, prepare_cube
from .report import Report, Result

Waves = NDArray[np.float64] | None
Like = TypeVar("Like", Cube, CubeReader)


QUANTITIES = {
    "weights": "float32",
    "flags": "uint8",
    "uncertainty": "float32",
    "invented": "uint8",
}
"""Products that are cubes, with the type they are stored as."""


def describe_quantity(like: Like, key: str | None) -> Like:
    """A header for another quantity on the same pixels, stored as it is; of one without a name, float32."""
    dtype = QUANTITIES.get(key or "", "float32")
    encoding = replace(like.encoding, dtype=dtype, scale=1.0, offset=0.0, nodata=None, key=key)
    scales = ("band_scales", "band_offsets", "nodata_is_nan", "data_array", "original")
    about = {k: v for k, v in like.metadata.items() if k not in scales}
    return replace(like, encoding=encoding, metadata=about)


@dataclass(frozen=True)
class Outputs:
    """Where the products go; None for those that are not wanted.

    Attributes:
        weights: the weights as a cube of float32.
        flags: see :func:`flag_voxels`, a cube of uint8.
        report: JSON.
        picture: a PNG with before, after, weights and spectra.
        uncertainty: a standard deviation for every voxel, a cube of float32, NaN where there is none.
        invented: where the model invented a value, a cube of uint8 (:mod:`hyperdlw.pipeline.invented`).
        audit: a page in HTML for a reviewer (:mod:`hyperdlw.pipeline.audit_page`).
        command: what was typed, for this page; "": the call in Python.
        noise: the noise of every band as a text file for isofit (:mod:`hyperdlw.pipeline.noise_file`).
    """

    weights: str | None = None
    flags: str | None = None
    report: str | None = None
    picture: str | None = None
    uncertainty: str | None = None
    invented: str | None = None
    noise: str | None = None
    audit: str | None = None
    command: str = ""

    def check_places(
        self, target: str, overwrite: bool, source: str, given: Sequence[str] = ()
    ) -> None:
        """Refuse outputs that could not be written, before anything is read; ``given``: more inputs."""
        plain = [self.report, self.picture, self.noise, self.audit]
        cubes = [target, *(vars(self)[key] for key in QUANTITIES)]
        io.check_places(cubes, overwrite, source, plain, given)

    @property
    def cubes(self) -> dict[str, str]:
        """The files of products that are cubes."""
        return {key: path for key in QUANTITIES if (path := vars(self)[key]) is not None}

    def check_cubes(self, target: str, like: CubeReader) -> None:
        """Refuse formats that cannot hold the restored cube and its products, and full disks."""
        wanted = {path: describe_quantity(like, key) for key, path in self.cubes.items()}
        wanted = {target: like, **wanted}
        for path, kind in wanted.items():
            io.check_save(path, kind)
        io.check_room(wanted)

    def save(self, result: Result, range: Range, overwrite: bool) -> None:
        """Write the products of a cube in memory, apart from the report."""
        for key, path in self.cubes.items():
            values = flag_result(result, range) if key == "flags" else getattr(result, key)
            like = describe_quantity(result.noisy, key).with_data(values)
            every = np.ones(like.shape, bool)
            io.save_cube(replace(like, valid=every), path, overwrite=overwrite)
        if self.picture is not None:
            self.draw_picture(shrink_result(result), overwrite)

    def draw_picture(self, look: Look | None, overwrite: bool) -> None:
        """The quick look."""
        if self.picture is not None and look is not None:
            parts = look.noisy, look.restored, look.weights
            draw_quicklook(*parts, self.picture, overwrite=overwrite)

    def save_page(
        self, look: Look | None, report: Report, names: tuple[str, str], ok: bool
    ) -> None:
        """The page, once the cube is there; ``names``: of the cubes; ``ok``: a file may be replaced."""
        if self.audit is None or look is None or report.audit is None:
            return
        roles = zip(("input", "output"), names, strict=True)
        files = {role: io.hash_files(name) for role, name in roles}
        title = os.path.basename(os.path.abspath(names[0]))
        dossier = Dossier(title, look, report.audit, report, files, self.command)
        write_page(dossier, self.audit, overwrite=ok)

    def save_texts(self, report: Report, waves: Waves, overwrite: bool) -> None:
        """The report as JSON, and the noise of every band as text."""
        if self.noise is not None:
            write_noise(report, waves, self.noise, overwrite=overwrite)
        if self.report is not None:
            text = json.dumps(to_json(report.as_dict()), indent=2, allow_nan=False)
            with atomic(self.report, overwrite=overwrite) as tmp:
                tmp.write_text(text + "\n")


class ArrayOutputs:
    """The outputs of a run in strips, in memory."""

    shared = False

    def __init__(self, noisy: Cube) -> None:
        self.cube = replace(noisy, data=noisy.data.copy(), valid=noisy.valid.copy())
        self.weights = np.zeros(noisy.shape, np.float32)
        self.invented = np.zeros(noisy.shape, np.uint8)
        self.uncertainty: NDArray[np.float32] | None = None

    def open(self) -> ArrayOutputs:
        """What takes strips."""
        return self

    def finish(self, job: Job) -> None:
        """There are no products."""

    def put(self, rows: slice, strip: RestoredStrip) -> int:
        """Take a strip."""
        self.cube.data[:, rows], self.cube.valid[:, rows] = strip.values, strip.ok
        self.weights[:, rows] = strip.weights
        self.invented[:, rows] = strip.invented
        if strip.uncertainty is not None:
            if self.uncertainty is None:
                self.uncertainty = np.full_like(self.weights, np.nan)
            self.uncertainty[:, rows] = strip.uncertainty
        return 0


@dataclass(frozen=True)
class Pens:
    """What writes strips into files; ``shared``: other processes may write, too, each its own strips."""

    cube: io.WindowWriter
    products: Mapping[str, io.WindowWriter]
    shared: bool

    def put(self, rows: slice, strip: RestoredStrip) -> int:
        """Write a strip; returns how many values were clipped."""
        clipped = self.cube.write(rows, slice(None), strip.values, strip.ok, None, strip.stored)
        for key, pen in self.products.items():
            values = getattr(strip, key)
            if values is not None:
                pen.write(rows, slice(None), values, np.ones_like(strip.ok))
        return clipped


class FileOutputs(ExitStack):
    """The outputs of a run in strips (rows written together), in files that appear when complete."""

    def __init__(
        self, reader: CubeReader, target: str, outputs: Outputs, overwrite: bool, strip: int
    ) -> None:
        super().__init__()
        self.reader, self.target, self.outputs = reader, target, outputs
        self.overwrite, self.strip = overwrite, strip
        self.look: Look | None = None
        self.page_look: Look | None = None

    def open(self) -> Pens:
        """Called when there is something to write: a file takes its room on the disk at once."""
        cube = self._create(self.target, self.reader, self.strip)
        more = {
            key: self._create(path, describe_quantity(self.reader, key), self.strip)
            for key, path in self.outputs.cubes.items()
            if key != "flags"  # found band by band, when all strips are there
        }
        pens = {key: writer.pen for key, writer in more.items()}
        return Pens(cube.pen, pens, all(w.shared for w in (cube, *more.values())))

    def finish(self, job: Job) -> None:
        """Called with the finished job, while its scratch files are there."""
        if self.outputs.flags is not None:
            like = describe_quantity(self.reader, "flags")
            _write_flags(job, self.reader, self._create(self.outputs.flags, like))
        if self.outputs.picture is not None:
            self.look = shrink_job(job, self.reader)
        if self.outputs.audit is not None:
            self.page_look = shrink_job(job, self.reader, for_page=True)

    def _create(self, path: str, like: CubeReader, strip: int | None = None) -> io.CubeWriter:
        made = io.open_writer(path, like, overwrite=self.overwrite, strip=strip)
        return self.enter_context(made)


StripOutputs = ArrayOutputs | FileOutputs


def _write_flags(job: Job, file: CubeReader, out: io.CubeWriter) -> None:
    """Flags of a finished run, band by band."""
    top = largest_stored(file.encoding)
    place = {b: i for i, b in enumerate(job.use)}
    for b in range(file.bands):
        data, valid = file.read(bands=[b])
        unit = restored = None
        if b in place:
            unit, restored = job.band(place[b])[0].numpy(), job.restored(place[b])
        found = flag_voxels(data, valid, unit, restored, top)
        out.write_stored(slice(None), slice(None), found, [b])


# --- flags

NODATA, DEAD, IMPULSE, STRIPE, SATURATED = 1, 2, 4, 8, 16
"""Bits of the flags of a voxel."""


def flag_voxels(
    data: NDArray[np.float32],
    valid: NDArray[np.bool_],
    unit: NDArray[np.float32] | None = None,
    restored: NDArray[np.float32] | None = None,
    top: float | None = None,
) -> NDArray[np.uint8]:
    """Bit flags of bands: 1 nodata, 2 dead line, 4 impulse, 8 striped line, 16 saturated.

    Args:
        data, valid: the noisy bands (band, row, col).
        unit, restored: the same on the unit interval, and restored; None for bands that were not
            denoised, which get the flags 1 and 16 only.
        top: largest value the file can hold. Without one, a band is taken for saturated where more
            than one in a thousand voxels share its largest value.

    >>> flag_voxels(np.array([[[5.0, 9.0]]]), np.array([[[False, True]]]), top=9.0).tolist()
    [[[1, 16]]]
    """
    found = np.where(valid, np.uint8(0), np.uint8(NODATA))
    for band, ok, out in zip(data, valid, found, strict=True):
        limit = top
        if limit is None and ok.any():
            most = band[ok].max()
            limit = float(most) if np.mean(band[ok] == most) > 1e-3 else None
        if limit is not None:
            out[ok & (band >= limit)] |= SATURATED
    if unit is None or restored is None:
        return found
    residual = np.where(valid, unit - restored, np.float32(0))
    for axis in (1, 2):
        dead = dead_lines(unit, valid, axis)
        striped = striped_lines(residual, dead, axis)
        for lines, bit in ((dead, DEAD), (striped, STRIPE)):
            found |= np.where(np.expand_dims(lines, 3 - axis) & valid, np.uint8(bit), np.uint8(0))
    broken = (found & (DEAD | STRIPE)) > 0
    found |= np.where(far_off(residual) & valid & ~broken, np.uint8(IMPULSE), np.uint8(0))
    return found


def flag_result(result: Result, range: Range) -> NDArray[np.uint8]:
    """Flags of all bands of a cube that was denoised in memory."""
    noisy = result.noisy
    ready = prepare_cube(noisy, range)
    top, use = largest_stored(noisy.encoding), ready.use
    found = flag_voxels(noisy.data, noisy.valid, top=top)
    restored = ready.limits.to_unit(result.cube.data[use])
    found[use] = flag_voxels(noisy.data[use], noisy.valid[use], ready.y.numpy(), restored, top)
    return found


def largest_stored(encoding: Encoding) -> float | None:
    """The value of the largest number an integer type can hold, in physical units."""
    dtype = np.dtype(encoding.dtype)
    if dtype.kind not in "ui":
        return None
    return float(np.float32(np.iinfo(dtype).max * encoding.scale + encoding.offset))
