"""``hyperdlw bench signal``: is a signal that the noisy cube shows still there after denoising?

Known spectra are put into clean scenes, noise is added, every method restores the cube as a user runs it, and
detectors look for the spectra before and after (:mod:`hyperdlw.testbed.signals`). Mixtures of known materials
tell the same of endmembers, the red edge and vegetation indices. As in the field table, bands have random
gains and offsets, and a method gets the noisy cube and nothing else.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import numpy as np

from ..errors import DlwError, unknown_name
from ..pipeline import FAINT, denoise
from ..testbed import MixedScene, Noisy, find_noise, mix_materials, signals
from .catalogue import BenchOptions
from .experiment import F32, Clock, Experiment, Record, Scene, Tell, Trial
from .field import METHODS, describe_method, draw_scales, restore
from .field import load_groups as load_field_groups
from .report import write_csv
from .runner import make_noisy
from .signal_report import write_markdown

PROTECTED = "protected"
"""Our command with the spectra told: ``--protect``."""
NAMES = (
    *(m for m in METHODS if m not in ("uniform", "auto", "known", "first")),
    PROTECTED,
)
"""Methods that a run compares, if none is named."""
NOISES = ("snr50", "emit", "mild", "case1")
AMPLITUDES = (0.005, 0.01, 0.02, 0.035, 0.05)
"""Of the signals, in ranges of the band."""
OWN_SCENES = tuple(f"made:{seed}" for seed in range(1, 11))
BANDS, SIDE = 48, 64
MATERIALS = 5
VEGETATION = 0.8
"""Share of a pixel from which it counts as vegetation."""


def load_scenes(options: BenchOptions) -> list[Scene]:
    """Small crops of the scenes that are asked for; ten made by code where none is."""
    small = replace(options, crop=options.crop or SIDE, bands=options.bands or BANDS)
    if not options.only and options.data is None and options.remote is None:
        small = replace(small, only=OWN_SCENES)
    return [scene for group in load_field_groups(small).values() for scene in group]


def run(
    scenes: Sequence[Scene],
    out: Path,
    *,
    names: Sequence[str] = (),
    noise: Sequence[str] = NOISES,
    seeds: int = 1,
    tell: Tell | None = None,
) -> list[Path]:
    """Measure the methods ``names`` (of the field table) and write ``signal.md`` and ``signal.csv``."""
    for name in names:
        if name not in (*METHODS, PROTECTED):
            raise unknown_name("method of the table 'signal'", name, METHODS)
    wanted = ("noisy", *(names or NAMES))
    experiment = Experiment("signal", out, tell)

    def plan() -> Iterator[Trial]:
        found = [find_noise(n) for n in noise]
        for scene, amplitude, kind, seed in itertools.product(
            scenes, AMPLITUDES, found, range(seeds)
        ):
            for name in wanted:
                facts = {"part": "implants", "scene": scene.name, "scene_hash": scene.sha256}
                yield Trial(
                    {
                        **facts,
                        "amplitude": amplitude,
                        "noise": kind.name,
                        "seed": seed,
                        "method": name,
                    },
                    (kind.build, describe_method(known_name(name), scene.data.shape)),
                    partial(measure_implants, scene, amplitude, kind.name, seed, name),
                )
        for number, kind, seed in itertools.product(range(len(scenes)), found, range(seeds)):
            for name in (m for m in wanted if m != PROTECTED):
                facts = {"part": "mixtures", "scene": f"mixture {number + 1}"}
                yield Trial(
                    {**facts, "noise": kind.name, "seed": seed, "method": name},
                    (kind.build, describe_method(name, (BANDS, SIDE, SIDE))),
                    partial(measure_mixture, number, kind.name, seed, name),
                )

    def say(r: Record) -> str:
        what = f"{r['scene']}, {r.get('amplitude', '')} {r['noise']}, {r['method']}"
        areas = [f"{k} {r[f'{k}_auc']:.3f}" for k in signals.KINDS if f"{k}_auc" in r]
        return f"{what}: " + (r.get("skipped") or ", ".join(areas) or f"{r['angle']:.2f} degrees")

    records = experiment.run(plan(), say)
    titles = {name: row.name or name for name, row in METHODS.items()}
    titles[PROTECTED] = "hyperdlw --protect (knows more)"
    text = write_markdown(records, titles)
    return experiment.write({"signal.md": text, "signal.csv": write_csv(records)})


@functools.lru_cache(maxsize=1)
def make_implanted(
    scene: Scene, amplitude: float, noise: str, seed: int
) -> tuple[F32, dict[str, signals.Signal], Noisy]:
    """The scene without signals, the signals, and the noisy cube with them; only the last one is kept."""
    clean = signals.make_room(scene.data)
    drawn = signals.draw_signals(clean.shape, np.random.default_rng(int(scene.sha256[:8], 16)))
    data = signals.implant_signals(clean, drawn, scale_amplitude(amplitude))
    noisy = make_noisy(Scene(f"{scene.name} {amplitude:g}", data), noise, seed)
    return clean, drawn, noisy


def scale_amplitude(amplitude: float) -> float:
    """An amplitude in ranges, in the numbers of a scene that has made room for signals."""
    return amplitude * (1 - 2 * signals.ROOM)


def measure_implants(scene: Scene, amplitude: float, noise: str, seed: int, name: str) -> Record:
    """What detectors see of every kind of signal in what a method makes of a noisy cube."""
    clean, drawn, noisy = make_implanted(scene, amplitude, noise, seed)
    x: F32 | None
    if name == PROTECTED:
        x, spent = protect_signals(drawn, noisy, seed), Record()
    elif name == "plain":
        x, spent = restore_plainly(noisy, seed)
    else:
        x, spent = apply_method(name, noisy, seed)
    if x is None:
        return spent
    found: Record = dict(spent)
    for kind, signal in drawn.items():
        sight = signals.judge_signal(signal, scale_amplitude(amplitude), x, noisy.y, clean)
        found |= {f"{kind}_{key}": value for key, value in asdict(sight).items()}
        found[f"{kind}_pixels"] = [int(signal.target.sum()), int(signal.background.sum())]
    return found


def known_name(name: str) -> str:
    """The method of the field table that a method is made of."""
    return "plain" if name == PROTECTED else name


def protect_signals(drawn: Mapping[str, signals.Signal], noisy: Noisy, seed: int) -> F32:
    """Our command, told the spectra of all signals."""
    gain, offset = draw_scales(len(noisy.y), seed)
    spectra = [s.spectrum * gain[:, 0, 0] for s in drawn.values()]
    found = denoise(noisy.y * gain + offset, protect=spectra).cube.data
    return np.asarray((found - offset) / gain, np.float32)


def restore_plainly(noisy: Noisy, seed: int) -> tuple[F32, Record]:
    """What the plain command makes of a noisy cube, and whether it warns of faint signals."""
    gain, offset = draw_scales(len(noisy.y), seed)
    clock = Clock()
    found = denoise(noisy.y * gain + offset)
    spent = clock.spent() | {"warned": FAINT in found.report.notes}
    return np.asarray((found.cube.data - offset) / gain, np.float32), spent


def apply_method(name: str, noisy: Noisy, seed: int) -> tuple[F32 | None, Record]:
    """The restored cube and the time it took; or None, and why there is none."""
    if name == "noisy":
        return noisy.y, {}
    clock = Clock()
    try:
        x = restore(name, noisy, *draw_scales(len(noisy.y), seed))
    except DlwError as error:
        return None, {"skipped": str(error)}
    return x, clock.spent()


@functools.lru_cache(maxsize=1)
def make_mixture(number: int, noise: str, seed: int) -> tuple[MixedScene, float, Noisy]:
    """A mixture from 400 to 1000 nm, the value that becomes 1, and the noisy cube."""
    rng = np.random.default_rng([24, number])
    nm = np.linspace(400.0, 1000.0, BANDS)
    mixed = mix_materials(BANDS, SIDE, SIDE, rng=rng, endmembers=MATERIALS, wavelengths=nm)
    data = mixed.data
    top = float(data.max())
    return (
        mixed,
        top,
        make_noisy(Scene(f"mixture {number}", (data / top).astype(np.float32)), noise, seed),
    )


def measure_mixture(number: int, noise: str, seed: int, name: str) -> Record:
    """Endmembers, red edge and indices of what a method makes of a noisy mixture.

    Returns:
        "angle": of endmembers, in degrees; "red_edge": error in nm; "ndvi" and "pri": errors; root mean
        squares over pixels of vegetation.
    """
    mixed, top, noisy = make_mixture(number, noise, seed)
    x, spent = apply_method(name, noisy, seed)
    if x is None:
        return spent
    nm, green = mixed.wavelengths, mixed.abundance[0] > VEGETATION
    true = (mixed.data / top)[:, green]
    seen = x[:, green].astype(np.float64)

    def compare(one: np.typing.NDArray[np.float64], two: np.typing.NDArray[np.float64]) -> float:
        return float(np.sqrt(np.mean((one - two) ** 2)))

    return {
        **spent,
        "angle": signals.judge_endmembers(x, mixed.spectra),
        "red_edge": compare(signals.find_red_edge(seen, nm), signals.find_red_edge(true, nm)),
        "ndvi": compare(
            signals.find_index(seen, nm, 800, 670), signals.find_index(true, nm, 800, 670)
        ),
        "pri": compare(
            signals.find_index(seen, nm, 531, 570), signals.find_index(true, nm, 531, 570)
        ),
    }
