"""What the interim network learns from: scenes, noises and preparation as a file gets it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from hyperdlw.cube import minmax_range
from hyperdlw.io import open_cube
from hyperdlw.pipeline.limits import limits_of_sample
from hyperdlw.testbed import Noisy, load_scenes, make_textured_scene, noise
from hyperdlw.testbed import field_blocks as fn
from hyperdlw.testbed.sensor_laws import INSTRUMENTS
from hyperdlw.weights import sample_blocks, sample_step

F32 = NDArray[np.float32]
Scenes = dict[str, F32]
Rng = np.random.Generator

AIRBORNE = ("abu-beach-1", "abu-beach-2", "abu-beach-3", "abu-urban-1", "abu-urban-2")
AIRBORNE += ("abu-urban-4", "paris_hs")
CAVE = ("chart_and_stuffed_toy", "cloth", "glass_tiles", "sponges", "thread_spools")
HELD = ("crop_testmsi2", "muufl_90", "moffett_50")
"""Scenes for validation only; the first is a CAVE scene."""

KINDS = {"case": 0.46, "even": 0.09, "bands": 0.13, "snr": 0.08, "photons": 0.05}
KINDS |= {"instrument": 0.05, "dead": 0.05, "columns": 0.03, "gains": 0.02, "wide": 0.04}
"""Kinds of noise and how often they are drawn."""


@dataclass
class Sample:
    """One prepared patch.

    Attributes:
        y, x: noisy and clean, in prepared units (bands on the limits that were found).
        span: (band, 1, 1) width of the limits in the units of the scene.
        sigma: true rms noise level in prepared units.
        level: the same for every voxel.
        given: the noisy patch on its true limits, for the paper's noise; else None.
    """

    y: torch.Tensor
    x: torch.Tensor
    span: torch.Tensor
    sigma: float
    level: torch.Tensor | None = None
    given: torch.Tensor | None = None


def read_scenes(data: Path) -> tuple[Scenes, Scenes, Scenes, Scenes]:
    """CAVE scenes, scenes made by code, airborne scenes, and scenes for validation only.

    Args:
        data: folder with ``hsi/train`` and ``remote``.
    """
    cave, _ = load_scenes(data / "hsi" / "train")
    remote = {}
    for name in (*AIRBORNE, *HELD[1:]):
        cube = open_cube(data / "remote" / f"{name}.npz")
        remote[name] = minmax_range(cube.data, cube.valid).to_unit(cube.data)[cube.good_bands]
    quiet = {name: cave[name] for name in CAVE}
    made = {f"made {k}": make_textured_scene(31, 160, 160, rng=_stream(77, k)) for k in range(6)}
    nm = np.linspace(400, 2450, 64)
    for k in range(4):
        made[f"wide {k}"] = make_textured_scene(64, 128, 128, rng=_stream(78, k), wavelengths=nm)
    airborne = {name: remote[name] for name in AIRBORNE}
    held = {HELD[0]: cave[HELD[0]], **{name: remote[name] for name in HELD[1:]}}
    held["made"] = make_textured_scene(31, 128, 128, rng=_stream(79, 0))
    return quiet, made, airborne, held


def _stream(*numbers: int) -> Rng:
    return np.random.default_rng(numbers)


def loguniform(rng: Rng, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def weaker_case(number: int, x: F32, rng: Rng, level: float, affected: int) -> Noisy:
    """A case of the paper with bands up to ``level``, and fewer impulses and weaker stripes."""
    share = rng.uniform(0.02, 0.3)
    sigma, ratio = (level / rng.uniform(1, 7), level), (share / 2, share)
    offset, clip = rng.uniform(0.02, 0.3), bool(rng.integers(2))
    if number == 4:
        return noise.spatial_gaussian(x, rng, sigma=sigma)
    if number == 5:
        even = noise.draw_band_sigma(len(x), rng, sigma)
        bumps = noise.draw_bump_sigma(x.shape, rng, sigma)
        spatial = rng.random((len(x), 1, 1)) < 0.5
        noisy = noise.add_gaussian(Noisy.clean(x), np.where(spatial, bumps, even), rng)
    else:
        noisy = noise.gaussian(x, rng, sigma=sigma)
    if number in (2, 5):
        noisy = noise.stripes(noisy, rng, affected=affected, offset=offset)
    if number in (1, 5):
        noisy = noise.impulses(noisy, rng, affected=affected, ratio=ratio, clip=clip)
    if number in (3, 5):
        noisy = noise.dead_columns(noisy, rng, affected=affected)
    return noisy


def add_noise(x: F32, rng: Rng, kind: str, floor: float) -> tuple[Noisy, bool]:
    """Noise of a kind, and whether it is the paper's at the paper's level.

    Args:
        floor: the weakest level, in units of 1/255, that the scene can judge.
    """
    level = loguniform(rng, max(0.3, floor), 70) / 255
    if kind == "case":
        number = int(rng.integers(1, 6))
        affected = round(rng.uniform(0.05, 0.6) * len(x))
        if rng.random() < 0.65:
            # Case 4 has no affected bands.
            count = None if number == 4 else affected
            return noise.case(number, x, rng, affected=count), True
        return weaker_case(number, x, rng, level, affected), False
    return _add_other(x, rng, kind, floor, level), False


def _add_other(x: F32, rng: Rng, kind: str, floor: float, level: float) -> Noisy:
    if kind == "even":
        return fn.add_even(x, rng, sigma=level)
    if kind == "bands":
        return fn.add_mild(x, rng, sigma=(level / rng.uniform(2, 10), level))
    if kind == "snr":
        return fn.add_proportional(x, rng, snr=loguniform(rng, 4, min(1000, 60 / max(floor, 0.06))))
    if kind == "photons":
        return fn.count_photons(x, rng, full=loguniform(rng, 15, 5000 if floor < 1 else 800))
    if kind == "instrument":
        name = str(rng.choice(list(INSTRUMENTS)))
        dim = loguniform(rng, 0.003, 0.3 if floor < 1 else 0.02)
        return fn.add_instrument(x, rng, name=name, dim=dim)
    some = rng.random() < 0.8
    base = fn.add_mild(x, rng, sigma=(level / 3, level)) if some else Noisy.clean(x)
    if kind == "dead":
        return fn.kill_elements(base, rng, times=loguniform(rng, 2, 30))
    if kind == "columns":
        rms = loguniform(rng, 0.002, 0.08)
        return fn.shift_columns(base, rng, rms=rms, own=rng.uniform(0.1, 0.9))
    if kind == "gains":
        return fn.change_gains(base, rng, times=loguniform(rng, 1, 10))
    if kind == "wide":
        return fn.shift_blocks(base, rng, offset=rng.uniform(0.03, 0.3))
    raise ValueError(kind)


def prepare_sample(
    noisy: Noisy, x: F32, side: int | None = None, move: Rng | None = None
) -> Sample:
    """Limits from the whole noisy crop, then its upper left square on those limits.

    Args:
        side: of the square; None: the whole crop.
        move: moves the limits by 3 % of the range: those of other rows of a file differ so much.
    """
    y = torch.from_numpy(noisy.y)
    ok = torch.ones_like(y, dtype=torch.bool)
    lo, hi = limits_of_sample(*sample_blocks(y, ok, sample_step(y.shape)))
    if move is not None:
        shift = torch.from_numpy(move.normal(0, 0.03, (2, len(lo))).astype(np.float32)) * (hi - lo)
        lo, hi = lo + shift[0], hi + shift[1]
    low, span = lo[:, None, None], (hi - lo)[:, None, None]

    def take(v: NDArray[np.floating]) -> torch.Tensor:
        return torch.from_numpy(np.array(v[:, :side, :side]))

    level = take(np.broadcast_to(noisy.truth.sigma, x.shape)) / span
    sigma = float(level.square().mean().sqrt())
    return Sample((take(noisy.y) - low) / span, (take(x) - low) / span, span, sigma, level)


def keep_limits(noisy: Noisy, x: F32) -> Sample:
    """A sample on its true limits, as the paper's tables have it."""
    level = torch.from_numpy(np.array(np.broadcast_to(noisy.truth.sigma, x.shape)))
    one = torch.ones(len(x), 1, 1)
    sigma = float(level.square().mean().sqrt())
    return Sample(torch.from_numpy(noisy.y), torch.from_numpy(x), one, sigma, level)


def draw_crop(
    groups: tuple[Scenes, Scenes, Scenes], rng: Rng, voxels: int
) -> tuple[Sample, int, str]:
    """A crop with noise and limits, the side of the patches to cut from it, and the kind of noise."""
    quiet, made, airborne = groups
    pick = rng.random()
    kind = str(rng.choice(list(KINDS), p=list(KINDS.values())))
    group, floor = (airborne, 3.0) if pick < 0.85 else (made, 0.3)
    if pick < 0.45:
        group, floor = quiet, 0.6
    if kind == "gains" and group is airborne:
        group, floor = made, 0.3
    names = list(group)
    size = np.array([np.sqrt(group[n][0].size) for n in names])
    scene = _draw_bands(group[names[rng.choice(len(names), p=size / size.sum())]], rng)
    side = int(min(64, max(32, np.sqrt(voxels / len(scene)) // 4 * 4)))
    known = rng.random() < 0.25
    outer = min(min(scene.shape[1:]), int(side * rng.choice([1.25, 1.5])))
    stride = 2 if rng.random() < 0.4 and min(scene.shape[1:]) >= 2 * outer else 1
    top, left = (int(rng.integers(n - outer * stride + 1)) for n in scene.shape[1:])
    x = scene[:, top : top + outer * stride : stride, left : left + outer * stride : stride]
    x = np.rot90(x, int(rng.integers(4)), axes=(1, 2))
    if rng.integers(2):
        x = x[:, :, ::-1]
    x = np.ascontiguousarray(x, np.float32)
    noisy, paper = add_noise(x, rng, kind, floor)
    if known:
        sample = keep_limits(noisy, x)
    else:
        sample = prepare_sample(noisy, x, move=rng if rng.random() < 0.3 else None)
    sample.given = torch.from_numpy(noisy.y) if paper else None
    return sample, min(side, outer), f"{kind} known" if known else kind


def _draw_bands(scene: F32, rng: Rng) -> F32:
    """16 to 31 bands of 31, 24 to 64 of more, some of them skipped."""
    total = len(scene)
    count = int(rng.integers(16, 32) if total == 31 else rng.integers(24, min(64, total) + 1))
    if total == 31 and rng.random() < 0.6:
        count = 31
    step = 1
    if count < total:
        step = int(rng.integers(1, min(6, (total - 1) // max(1, count - 1)) + 1))
    low = int(rng.integers(total - (count - 1) * step))
    return scene[low : low + (count - 1) * step + 1 : step]


def cut_patch(s: Sample, side: int, rng: Rng) -> Sample:
    """A patch of a prepared crop, turned and mirrored."""
    r, c = (int(rng.integers(n - side + 1)) for n in s.y.shape[1:])
    k, flip = int(rng.integers(4)), bool(rng.integers(2))

    def take(v: torch.Tensor) -> torch.Tensor:
        v = torch.rot90(v[:, r : r + side, c : c + side], k, (1, 2))
        return (v.flip(2) if flip else v).contiguous()

    assert s.level is not None
    sigma = float(take(s.level).square().mean().sqrt())
    given = None if s.given is None else take(s.given)
    return Sample(take(s.y), take(s.x), s.span, sigma, given=given)
