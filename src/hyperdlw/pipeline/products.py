"""What comes out beside the restored cube: weights, flags, a report, a picture."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from .. import io
from ..cube import Cube
from ..io import atomic, to_json
from .flags import flags, flags_of, largest_stored
from .journal import Executor, folder_of
from .prepare import Range
from .quicklook import need_matplotlib, quicklook
from .run import Result

if TYPE_CHECKING:
    from ..io import CubeReader
    from .job import Job, Options
    from .plan import Plan

SMALL = 512
"""Longest side of a quick look in pixels."""

Like = TypeVar("Like", Cube, "CubeReader")


def plain(like: Like, dtype: str, key: str) -> Like:
    """A header for another quantity on the same pixels, stored as it is."""
    encoding = replace(like.encoding, dtype=dtype, scale=1.0, offset=0.0, nodata=None, key=key)
    scales = ("band_scales", "band_offsets", "nodata_is_nan", "data_array")
    about = {k: v for k, v in like.metadata.items() if k not in scales}
    return replace(like, encoding=encoding, metadata=about)


@dataclass(frozen=True)
class Outputs:
    """Where the products go; None for those that are not wanted."""

    weights: str | None = None
    flags: str | None = None
    report: str | None = None
    picture: str | None = None

    def check(self, cube: Cube) -> None:
        """Refuse formats that cannot hold them, before the work."""
        if self.weights is not None:
            io.check_save(self.weights, plain(cube, "float32", "weights"))
        if self.flags is not None:
            io.check_save(self.flags, plain(cube, "uint8", "flags"))
        if self.picture is not None:
            need_matplotlib()

    def save(self, result: Result, range: Range, overwrite: bool, clipped: int = 0) -> None:
        """Write the products of a cube in memory."""
        every = np.ones(result.noisy.shape, bool)
        if self.weights is not None:
            like = replace(plain(result.noisy, "float32", "weights"), valid=every)
            io.save_cube(like.with_data(result.weights), self.weights, overwrite=overwrite)
        if self.flags is not None:
            like = replace(plain(result.noisy, "uint8", "flags"), valid=every)
            io.save_cube(like.with_data(flags_of(result, range)), self.flags, overwrite=overwrite)
        if self.picture is not None:
            step = max(1, -(-max(result.noisy.shape[1:]) // SMALL))
            cut = np.s_[:, ::step, ::step]
            before, after = (_window(c, cut) for c in (result.noisy, result.cube))
            quicklook(before, after, result.weights[cut], self.picture, overwrite=overwrite)
        if self.report is not None:
            facts = result.report.as_dict() | {"clipped_voxels": clipped}
            save_report(facts, self.report, overwrite=overwrite)


def _window(cube: Cube, cut: Any) -> Cube:
    return replace(cube, data=cube.data[cut], valid=cube.valid[cut])


def save_report(report: dict[str, Any], path: str, *, overwrite: bool = False) -> None:
    """The report as JSON."""
    with atomic(path, overwrite=overwrite) as tmp:
        tmp.write_text(json.dumps(to_json(report), indent=2, allow_nan=False) + "\n")


def denoise_file(
    file: CubeReader,
    target: str,
    options: Options,
    plan: Plan,
    outputs: Outputs,
    overwrite: bool = False,
    executor: Executor | None = None,
    watch: Callable[[str, int, int], None] | None = None,
    strict: bool = False,
) -> dict[str, Any]:
    """From file to file by windows; returns the report with ``clipped_voxels``.

    All outputs appear when they are complete. What is unfinished stays in a hidden folder beside
    ``target``, and the same call goes on from there.
    """
    from .in_strips import Sinks, denoise_large, identity_of

    if outputs.picture is not None:
        need_matplotlib()
    looks: list[tuple[Cube, Cube, NDArray[np.float32]]] = []
    with ExitStack() as stack:

        def sink(path: str, like: CubeReader, strip: int | None = None) -> io.CubeWriter:
            made = io.open_writer(path, like, overwrite=overwrite, strip=strip)
            return stack.enter_context(made)

        def sinks() -> Sinks:
            # Opened when there is something to write: an output takes its room on the disk at once.
            made = {"cube": sink(target, file, plan.height)}
            if outputs.weights is not None:
                like = plain(file, "float32", "weights")
                made["weights"] = sink(outputs.weights, like, plan.height)
            puts = {name: partial(_put, out.pen) for name, out in made.items()}
            return Sinks(**puts, shared=all(out.shared for out in made.values()))

        def after(job: Job) -> None:
            if outputs.flags is not None:
                _write_flags(job, file, sink(outputs.flags, plain(file, "uint8", "flags")))
            if outputs.picture is not None:
                looks.append(_small(job, file))

        report, clipped = denoise_large(
            file,
            options,
            plan,
            folder_of(target),
            sinks,
            identity=identity_of(file),
            executor=executor,
            watch=watch,
            after=after,
            strict=strict,
        )
    facts = report.as_dict()
    facts["clipped_voxels"] = None if strict and not report.converged else clipped
    if outputs.picture is not None:
        for look in looks:
            quicklook(*look, outputs.picture, overwrite=overwrite)
    if outputs.report is not None:
        save_report(facts, outputs.report, overwrite=overwrite)
    return facts


def _put(
    pen: io.WindowWriter, rows: slice, values: NDArray[np.float32], ok: NDArray[np.bool_]
) -> int:
    return pen.write(rows, slice(None), values, ok)


def _write_flags(job: Job, file: CubeReader, out: io.CubeWriter) -> None:
    """Flags of a finished run, band by band."""
    top = largest_stored(file.encoding)
    place = {b: i for i, b in enumerate(job.use)}
    for b in range(file.bands):
        data, valid = file.read(bands=[b])
        unit = restored = None
        if b in place:
            unit, restored = job.band(place[b])[0].numpy(), job.restored(place[b])
        found = flags(data, valid, unit, restored, top)
        out.write_stored(slice(None), slice(None), found, [b])


def _small(job: Job, file: CubeReader) -> tuple[Cube, Cube, NDArray[np.float32]]:
    """The noisy and the restored cube and the weights with every so many pixels left out."""
    from .restore_strips import restored_strip, stored_weights

    step = max(1, -(-max(file.shape[1:]) // SMALL))
    kept = []
    for i in job.plan.strips:
        rows = job.plan.window(i, 0).own
        cut = np.s_[:, (-rows.start) % step :: step, ::step]
        values, ok, _ = restored_strip(job, file, i)
        parts = *file.read(rows), values, ok, stored_weights(job, rows)
        kept.append([np.ascontiguousarray(part[cut]) for part in parts])
    data, valid, restored, ok, w = (np.concatenate(v, axis=1) for v in zip(*kept, strict=True))
    about = file.wavelengths, file.good_bands
    return Cube(data, valid, *about), Cube(restored, ok, *about), w
