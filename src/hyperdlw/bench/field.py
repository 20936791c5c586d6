"""``hyperdlw bench field``: every method as a user runs it, on noise as files have it.

A method gets the noisy cube and nothing else. Every band has a random gain and offset, so that no limits
can be known; figures are on the scale of the clean band, off bright pixels and gaps. Two lines know
more and are labelled so: our command with the limits told, and the first release with the same.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch

from ..errors import BadFile, BadOption, DlwError, unknown_name
from ..models import MODEL, WEIGHTS, build_model, published
from ..pipeline import advise, denoise
from ..solver import Problem, solve
from ..testbed import (
    CASES,
    FIELD_NOISES,
    MADE,
    Noisy,
    find_roads,
    indian_pines,
    metrics,
    psnr,
)
from ..weights import resolve
from .catalogue import BenchOptions
from .everything import list_training_scenes
from .experiment import F32, Clock, Experiment, Record, Scene, Tell, Trial, loop_images
from .field_report import write_markdown
from .report import write_csv
from .runner import Method, make_noisy
from .tables import MAIN, ORIGINAL, RIVALS, Row

Mask = np.typing.NDArray[np.bool_]

METHODS = {
    "plain": Row(WEIGHTS, model=MODEL, name="hyperdlw"),
    "uniform": Row("uniform", model=MODEL, name="hyperdlw, uniform weights"),
    "auto": Row(WEIGHTS, model=MODEL, name="hyperdlw --auto"),
    **{
        r.model: r
        for r in RIVALS.rows
        if r.model and r.weights in (ORIGINAL, "") and r.model != "hsi-denet"
    },
    "mnf": Row("", model="mnf", name="MNF"),
    "known": Row(WEIGHTS, model=MODEL, name="known limits (knows more)"),
    "first": Row(MAIN, model="lrtfdfr", name="first release, known limits (knows more)"),
}
"""What is compared, by the names that ``--models`` takes."""

OWN_SCENES = ("made:1", "made:2", "roads:1")
NOISES = (*CASES, *FIELD_NOISES)
QUIET = ("snr150", "snr500", "snr1000", "column-gains", "none")
"""Airborne scenes carry noise of their own, and cannot judge these."""
ROAD_NOISES = ("none", "mild", "column-offsets")
"""What scenes with roads along the track are for."""
ALIKE = 200.0
"""PSNR of a band that is the same, in dB."""
BEST_BANDS = 60


def load_groups(options: BenchOptions) -> dict[str, list[Scene]]:
    """Scenes by where they come from: made by code, "CAVE" of ``data``, "airborne" of ``remote``.

    Airborne scenes have 31 and all bands; where none is named, those that a network has seen are left out.
    """
    made = tuple(n for n in options.only if n.startswith(MADE))
    files = tuple(n for n in options.only if n not in made)
    groups: dict[str, list[Scene]] = {}
    if made or not files:
        named = replace(options, data=None, only=made or OWN_SCENES)
        groups["made"] = named.load_scenes("field")
    for group, folder in (("CAVE", options.data), ("airborne", options.remote)):
        if folder is None or (made and not files):
            continue
        flown = group == "airborne"
        without = list_training_scenes() if flown and not files else ()
        for bands in (31, 0) if flown and not options.bands else (options.bands,):
            here = replace(options, data=folder, only=files, bands=bands, without=without)
            try:
                groups.setdefault(group, []).extend(here.load_scenes("field"))
            except BadFile:
                if not files:  # a named scene may be in the other folder
                    raise
    found = {s.name.partition("[")[0] for scenes in groups.values() for s in scenes}
    if missing := [n for n in options.only if n not in found]:
        raise BadOption(
            f"there is no scene {', '.join(missing)} in the folders of --data and --remote"
        )
    return {group: scenes for group, scenes in groups.items() if scenes}


def draw_scales(bands: int, seed: int) -> tuple[F32, F32]:
    """A gain and an offset for every band, (band, 1, 1): units that a program knows nothing of."""
    rng = np.random.default_rng(1000 + seed)
    gain, offset = rng.uniform(0.3, 3, (bands, 1, 1)), rng.uniform(-1, 1, (bands, 1, 1))
    return gain.astype(np.float32), offset.astype(np.float32)


def run(
    groups: Mapping[str, Sequence[Scene]],
    out: Path,
    *,
    names: Sequence[str] = (),
    noise: Sequence[str] = NOISES,
    seeds: int = 2,
    pines: bool = False,
    tell: Tell | None = None,
) -> list[Path]:
    """Measure the methods ``names`` and write ``field.md`` and ``field.csv``.

    Args:
        groups: scenes by where they come from: "made", "CAVE", "airborne".
        names: of ``METHODS``; all when empty.
        pines: also look at what is removed from Indian Pines.
    """
    for name in names:
        if name not in METHODS:
            raise unknown_name("method of the table 'field'", name, METHODS)
    wanted = ("noisy", *(names or METHODS))
    experiment = Experiment("field", out, tell)

    def plan() -> Iterator[Trial]:
        for group, scenes in groups.items():
            for scene, found, seed in loop_images(scenes, noise, seeds):
                if not fits(group, scene.name, found.name):
                    continue
                for name in methods_for(found.name, wanted):
                    facts = {"group": group, "scene": scene.name, "scene_hash": scene.sha256}
                    yield Trial(
                        {**facts, "noise": found.name, "seed": seed, "method": name},
                        (found.build, describe_method(name, scene.data.shape)),
                        partial(measure, scene, found.name, seed, name),
                    )
        if pines and "plain" in wanted:
            facts = {"group": "own noise", "scene": "Indian Pines", "noise": "own"}
            settings = describe_method("plain", (200, 145, 145))
            yield Trial({**facts, "seed": 0, "method": "plain"}, settings, measure_removed)

    def say(r: Record) -> str:
        figure = r.get("skipped") or f"{r.get('psnr', np.nan):.2f} dB"
        return f"{r['scene']}, {r['noise']}, draw {r['seed']}, {r['method']}: {figure}"

    records = experiment.run(plan(), say)
    titles = {name: row.name or name for name, row in METHODS.items()}
    text = write_markdown(records, titles)
    return experiment.write({"field.md": text, "field.csv": write_csv(records)})


def fits(group: str, scene: str, noise: str) -> bool:
    """Whether a scene can judge a noise."""
    if scene.startswith("roads:"):
        return noise in ROAD_NOISES
    return group != "airborne" or noise not in QUIET


def methods_for(noise: str, wanted: Sequence[str]) -> list[str]:
    """The methods that are measured on a noise.

    Known limits are for the paper's cases. "even15" is what cubes with bright pixels are compared with.
    """
    if noise == "even15":
        return [m for m in wanted if m in ("noisy", "plain")]
    return [m for m in wanted if noise in CASES or m not in ("known", "first")]


@functools.lru_cache(maxsize=64)
def describe_method(name: str, shape: tuple[int, ...]) -> tuple[str, ...]:
    """Hashes of the constants and networks behind a method."""
    if name == "noisy":
        return ()
    row = METHODS[name]
    method = Method(row, row.model or MODEL)
    return method.describe(shape), method.network_hashes


@functools.lru_cache(maxsize=1)
def make_image(scene: Scene, noise: str, seed: int) -> Noisy:
    """The noisy image that all methods get; only the last one is kept."""
    return make_noisy(scene, noise, seed)


def measure(scene: Scene, noise: str, seed: int, name: str) -> Record:
    """The figures of one method on one noisy image."""
    noisy = make_image(scene, noise, seed)
    if name == "noisy":
        return judge(scene, noisy, noisy.y, noise)
    clock = Clock()
    try:
        x = restore(name, noisy, *draw_scales(len(noisy.y), seed))
    except DlwError as error:
        return {"skipped": str(error)}
    return {**clock.spent(), **judge(scene, noisy, x, noise)}


def restore(name: str, noisy: Noisy, gain: F32, offset: F32) -> F32:
    """The image that a method makes of a noisy cube, on the scale of the clean one."""
    row, y = METHODS[name], noisy.y
    if name == "known":
        return denoise(y, range=(0, 1)).cube.data
    if name == "first":
        image = torch.from_numpy(y)
        trust = resolve(row.weights)(image, torch.ones_like(image, dtype=torch.bool))
        return solve(Problem(build_model("lrtfdfr", image.shape), image, trust)).x.numpy()
    raw = y * gain + offset
    if name == "plain":
        found = denoise(raw)
    elif name == "auto":
        found = denoise(raw, **advise(raw).settings)
    else:
        found = denoise(raw, model=row.model or MODEL, weights=row.weights or WEIGHTS)
    return np.asarray((found.cube.data - offset) / gain, np.float32)


def judge(scene: Scene, noisy: Noisy, x: F32, noise: str) -> Record:
    """PSNR, SSIM and SAM where an image is judged, and what the bars of some noises need beside them."""
    target, judged = noisy.find_target(scene.data), noisy.judged
    seen = np.ones(x.shape, bool) if judged is None else judged
    found: Record = {
        "psnr": mean_psnr(target, x, seen),
        "psnr_cut": mean_psnr(target, np.clip(x, 0, 1), seen),
        "ssim": metrics.ssim(target, x, clip=False, valid=judged),
        "sam": metrics.sam(target, x, valid=judged),
    }
    if noise == "column-offsets":
        profile = (x - target).mean(axis=1)
        found["profile"] = float((profile - profile.mean(axis=1, keepdims=True)).std())
    if noise == "dead-elements":
        dead = noisy.truth.dead
        beside = (np.roll(dead, 1, axis=2) | np.roll(dead, -1, axis=2)) & ~dead
        found["psnr_dead"], found["psnr_beside"] = (
            -10 * float(np.log10(np.mean((x - target)[where] ** 2) + 1e-20))
            for where in (dead, beside)
        )
    if noise.startswith("bright"):
        where = ~seen & noisy.valid
        found["bright_change"] = float(np.mean(np.abs(x / noisy.y - 1)[where]))
    if noise == "none" and scene.name.startswith("roads:"):
        roads = [slice(max(0, r.start - 1), r.stop + 1) for r in find_roads(x.shape[2])]
        found["road_change"] = max(float(np.abs(x - target)[:, :, r].mean()) for r in roads)
    return found


def mean_psnr(target: F32, x: F32, seen: Mask) -> float:
    """Mean over the bands; one that is the same counts ``ALIKE``, so that others still count."""
    one = [slice(b, b + 1) for b in range(len(x)) if seen[b].any()]
    each = [psnr(target[b], x[b], clip=False, valid=seen[b]) for b in one]
    return float(np.mean(np.minimum(each, ALIKE)))


def measure_removed() -> Record:
    """What the plain command removes from the best bands of Indian Pines, in levels of their noise.

    The level is that of the regression on the other bands, which is not the estimate of the pipeline.
    """
    cube, _ = indian_pines()
    clock = Clock()
    x = denoise(cube).cube.data
    spent = clock.spent()
    raw = np.asarray(cube.data, np.float64)
    flat = torch.from_numpy(raw).flatten(1)
    level = published.hyres.regression_residual(flat, "hyres").std(1).numpy()
    best = np.argsort(raw.std(axis=(1, 2)) / level)[-BEST_BANDS:]
    removed = (raw - x)[best]
    removed -= removed.mean(axis=(1, 2), keepdims=True)
    power = np.maximum((removed**2).mean(axis=(1, 2)), 1e-12)
    near = (removed[:, 1:] * removed[:, :-1]).mean(axis=(1, 2))
    near += (removed[:, :, 1:] * removed[:, :, :-1]).mean(axis=(1, 2))
    return {
        **spent,
        "removed_levels": float(np.mean(np.sqrt(power) / level[best])),
        "removed_correlation": float(np.mean(near / 2 / power)),
    }
