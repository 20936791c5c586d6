"""What comes out beside the restored cube: weights, flags, a report, a picture; and the audit."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import io
from .advise import dead_lines, far_off, striped_lines
from .console import plain_values
from .cube import Cube
from .denoising import Range, prepare
from .errors import BadInput, MissingDependency
from .io.atomic import atomic
from .picture import colour_bands, encode_png, heat, pseudo_colour, stretch
from .scratch import Executor, folder_of
from .weighting import FLOOR

if TYPE_CHECKING:
    from .denoising import Result
    from .io import CubeFile
    from .job import Job, Options
    from .tiles import Plan

NODATA, DEAD, IMPULSE, STRIPE, SATURATED = 1, 2, 4, 8, 16
"""Bits of the flags of a voxel."""

SMALL = 512
"""Longest side of a quick look in pixels."""

Like = TypeVar("Like", Cube, "CubeFile")


def plain(like: Like, dtype: str, key: str) -> Like:
    """A header for another quantity on the same pixels, stored as it is."""
    encoding = replace(like.encoding, dtype=dtype, scale=1.0, offset=0.0, nodata=None, key=key)
    scales = ("band_scales", "band_offsets", "nodata_is_nan", "data_array")
    about = {k: v for k, v in like.metadata.items() if k not in scales}
    return replace(like, encoding=encoding, metadata=about)


# --- flags


def flags(
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

    >>> flags(np.array([[[5.0, 9.0]]]), np.array([[[False, True]]]), top=9.0).tolist()
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


def largest_stored(encoding: Any) -> float | None:
    """The value of the largest number an integer type can hold, in physical units."""
    dtype = np.dtype(encoding.dtype)
    if dtype.kind not in "ui":
        return None
    return float(np.float32(np.iinfo(dtype).max * encoding.scale + encoding.offset))


# --- outputs


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
            _matplotlib()

    def save(self, result: Result, range: Range, overwrite: bool, clipped: int = 0) -> None:
        """Write the products of a cube in memory."""
        every = np.ones(result.noisy.shape, bool)
        if self.weights is not None:
            like = replace(plain(result.noisy, "float32", "weights"), valid=every)
            io.save_cube(like.with_data(result.weights), self.weights, overwrite=overwrite)
        if self.flags is not None:
            like = replace(plain(result.noisy, "uint8", "flags"), valid=every)
            io.save_cube(like.with_data(_flags_of(result, range)), self.flags, overwrite=overwrite)
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


def _flags_of(result: Result, range: Range) -> NDArray[np.uint8]:
    noisy = result.noisy
    ready = prepare(noisy, range)
    top = largest_stored(noisy.encoding)
    found = flags(noisy.data, noisy.valid, top=top)
    use = ready.use
    restored = ready.limits.to_unit(result.cube.data)[use]
    found[use] = flags(noisy.data[use], noisy.valid[use], ready.y.numpy(), restored, top)
    return found


def save_report(report: dict[str, Any], path: str, *, overwrite: bool = False) -> None:
    """The report as JSON."""
    with atomic(path, overwrite=overwrite) as tmp:
        tmp.write_text(json.dumps(plain_values(report), indent=2, allow_nan=False) + "\n")


def denoise_file(
    file: CubeFile,
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
    from .large import Sinks, denoise_large, identity_of

    if outputs.picture is not None:
        _matplotlib()
    looks: list[tuple[Cube, Cube, NDArray[np.float32]]] = []
    with ExitStack() as stack:

        def sink(path: str, like: CubeFile, strip: int | None = None) -> io.CubeWriter:
            made = io.create(path, like, overwrite=overwrite, strip=strip)
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


def _put(pen: io.Pen, rows: slice, values: NDArray[np.float32], ok: NDArray[np.bool_]) -> int:
    return pen.write(rows, slice(None), values, ok)


def _write_flags(job: Job, file: CubeFile, out: io.CubeWriter) -> None:
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


def _small(job: Job, file: CubeFile) -> tuple[Cube, Cube, NDArray[np.float32]]:
    """The noisy and the restored cube and the weights with every so many pixels left out."""
    from .handover import restored_strip, stored_weights

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


# --- pictures


def _matplotlib() -> Any:
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependency(
            "pictures need matplotlib; install it with: pip install 'dlw[bench]'"
        ) from error
    return Figure


def quicklook(
    noisy: Cube, restored: Cube, weights: ArrayLike, path: str, *, overwrite: bool = False
) -> None:
    """Before, after, mean weight, and the spectra of three pixels, as one PNG."""
    figure = _matplotlib()(figsize=(13, 3.6), layout="constrained")
    w = np.asarray(weights, np.float64)
    bands = colour_bands(restored)
    limits = stretch(restored, bands)
    plane = w.sum(axis=0) / np.maximum((w > 0).sum(axis=0), 1)
    axes = figure.subplots(1, 4, width_ratios=[1, 1, 1, 1.3])
    shown = (
        ("noisy", pseudo_colour(noisy, bands, limits)),
        ("restored", pseudo_colour(restored, bands, limits)),
        ("mean weight (bright: trusted)", heat(plane)),
    )
    for ax, (title, image) in zip(axes, shown, strict=False):
        ax.imshow(image, interpolation="nearest")
        ax.set_title(title)
        ax.set_axis_off()
    spectra, (_, rows, cols) = axes[3], noisy.shape
    known = noisy.wavelengths is not None
    x = noisy.wavelengths if known else np.arange(noisy.bands)
    for k, part in enumerate((0.25, 0.5, 0.75)):
        r, c = int(part * (rows - 1)), int(part * (cols - 1))
        before, after = (
            np.where(cube.valid[:, r, c], cube.data[:, r, c], np.nan) for cube in (noisy, restored)
        )
        spectra.plot(x, before, color=f"C{k}", alpha=0.35, linewidth=0.8)
        spectra.plot(x, after, color=f"C{k}", linewidth=1.4)
        for ax in axes[:2]:
            ax.plot(c, r, "o", markersize=5, color=f"C{k}", markeredgecolor="white")
    spectra.set_xlabel("wavelength (nm)" if known else "band")
    spectra.set_title("three pixels (thin: noisy)")
    with atomic(path, overwrite=overwrite) as tmp:
        figure.savefig(tmp, format="png", dpi=100)


# --- audit


@dataclass(frozen=True)
class BandAudit:
    """The whitened residual of a band: about mean 0, variance 1 and no correlation if only noise went.

    Attributes:
        autocorrelation: between neighbours, the smaller one of rows and columns (stripes are
            correlated along one of them only).
        structured: whether it looks like removed signal.
    """

    band: int
    mean: float
    variance: float
    autocorrelation: float
    structured: bool


STRUCTURED = 0.1
"""Correlation of neighbours in both directions from which a residual is taken for structure."""


def whitened(
    noisy: NDArray[np.float32], restored: NDArray[np.float32], w: NDArray[np.float32]
) -> NDArray[np.float64]:
    """sqrt(w) (y - x) / sqrt(c), 0 where w is; c from the median of w (y - x)^2.

    w is the inverse variance up to the factor c, and the median of a squared normal variable is
    0.4549: half of the voxels may be anything.
    """
    known = w > FLOOR
    if not known.any():
        raise BadInput("no voxel has any weight, so there is nothing to look at")
    z = np.where(known, np.sqrt(w, dtype=np.float64) * (noisy - restored), 0.0)
    c = float(np.median(np.square(z[known]))) / 0.4549
    out: NDArray[np.float64] = z / np.sqrt(max(c, 1e-30))
    return out


def neighbours(z: NDArray[np.float64], known: NDArray[np.bool_], axis: int) -> float:
    """Correlation of neighbours along an axis of a plane; far values are cut to four deviations."""
    z = np.clip(z, -4, 4)
    n = z.shape[axis]
    a, b = (np.take(z, range(i, n - 1 + i), axis) for i in (0, 1))
    both = np.take(known, range(n - 1), axis) & np.take(known, range(1, n), axis)
    a, b = a[both], b[both]
    if a.size < 16:
        return 0.0
    a, b = a - a.mean(), b - b.mean()
    return float((a * b).mean() / max(float(np.sqrt((a * a).mean() * (b * b).mean())), 1e-30))


def audit(
    noisy: Cube, restored: Cube, weights: NDArray[np.float32], range: Range = "auto"
) -> Audit:
    """What denoising took away: is it noise?

    Args:
        noisy, restored: before and after, of the same shape.
        weights: of the noisy cube (:func:`dlw.predict_weights`).
        range: how bands are scaled to [0, 1].
    """
    if noisy.shape != restored.shape:
        raise BadInput(
            f"the cubes have different (band, row, col) shapes: {noisy.shape} and {restored.shape}"
        )
    ready = prepare(noisy, range)
    use = np.flatnonzero(ready.use)
    x = ready.limits.to_unit(np.where(restored.valid, restored.data, np.float32(0)))[use]
    ok = ready.valid.numpy() & restored.valid[use]
    w = np.where(ok, weights[use], np.float32(0))
    z = whitened(ready.y.numpy(), x, w)
    found = []
    for b, plane, known in zip(use, z, w > FLOOR, strict=True):
        values = plane[known]
        if not values.size:
            continue
        near = min(neighbours(plane, known, axis) for axis in (0, 1))
        found.append(
            BandAudit(
                int(b), float(values.mean()), float(values.var()), near, bool(near > STRUCTURED)
            )
        )
    change = np.where(ok, ready.y.numpy() - x, 0.0)
    size = np.sqrt(np.square(change).sum(axis=0) / np.maximum(ok.sum(axis=0), 1))
    return Audit(tuple(found), size.astype(np.float32))


@dataclass(frozen=True, eq=False)
class Audit:
    """Bands and the change map: root mean square over bands of y - x, in units of the range."""

    bands: tuple[BandAudit, ...]
    change: NDArray[np.float32]

    @property
    def structured(self) -> tuple[int, ...]:
        return tuple(b.band for b in self.bands if b.structured)

    def as_dict(self) -> dict[str, Any]:
        return {"bands": [asdict(b) for b in self.bands], "structured": list(self.structured)}

    def save_map(self, path: str, *, overwrite: bool = False) -> None:
        """The change map as a PNG, dark for small changes."""
        middle = max(float(np.median(self.change)), 1e-6)
        with atomic(path, overwrite=overwrite) as tmp:
            Path(tmp).write_bytes(encode_png(heat(self.change, (middle / 5, middle * 5))))
