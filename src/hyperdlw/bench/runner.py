"""Runs the cases of a table: one record each; finished cases are not run again."""

from __future__ import annotations

import contextlib
import functools
import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from .. import __version__
from ..errors import DlwError
from ..models import build_model, find_model
from ..networks import files as store
from ..pipeline import Result, denoise
from ..solver import Model
from ..testbed import Noisy, Truth, find_noise, psnr, scores
from ..weights import Net, Source, resolve
from .experiment import (
    F32,
    NO_FILES,
    Clock,
    Experiment,
    Files,
    Record,
    Scene,
    Spent,
    Tell,
    hash_constants,
    hash_source,
    make_key,
)
from .tables import REFERENCE, Row, Strength, Table

GRID = tuple(2.0**k for k in range(-3, 7))
"""Strengths that "best" chooses from."""


@dataclass(frozen=True)
class Case:
    """One number of a table.

    Attributes:
        scene: name of the scene; ``scene_hash`` the hash of its values.
        noise: name of the noise, ``seed`` its random stream.
        model: registered model, or "noisy" for the input itself.
        weights: name of the weight source; ``source`` the hashes of the networks that are used.
        strength: factor on the regulariser, or how it is found.
        settings_hash: hash of the constants of noise, model and weights; ``code`` that of the source.
    """

    scene: str
    scene_hash: str
    noise: str
    seed: int
    model: str
    weights: str
    source: str = ""
    strength: Strength = 1.0
    settings_hash: str = ""
    code: str = ""

    @functools.cached_property
    def key(self) -> str:
        """A hash that names this case for ever."""
        return make_key(asdict(self))


def plan_cases(
    table: Table, scenes: Iterable[Scene], seeds: Iterable[int], files: Files = NO_FILES
) -> list[Case]:
    """Every case of a table; rows of the reference networks follow ours."""
    extra = [replace(r, weights=REFERENCE + r.weights) for r in table.rows]
    rows = [*table.rows, *[r for r in extra if r.weights in files.reference]]
    # A method that takes no weights is run once, whatever the rows are.
    cells = list(
        dict.fromkeys(
            (r if "weights" in find_model(m).takes else Row(""), m) for r, m in table.cells(rows)
        )
    )
    methods = {cell: Method(cell[0], cell[1], files) for cell in cells}
    seeds = tuple(seeds)
    cases = []
    for scene in scenes:
        shape, sha = scene.data.shape, scene.sha256
        constants = {cell: method.describe(shape) for cell, method in methods.items()}
        for noise in map(find_noise, table.noise):
            noise_hash, code = hash_constants(noise.build), hash_source()
            for seed in seeds:
                where = (scene.name, sha, noise.name, seed)
                cases.append(Case(*where, "noisy", "", settings_hash=noise_hash, code=code))
                cases += [
                    Case(
                        *where,
                        model=m,
                        weights=r.weights,
                        source=methods[r, m].network_hashes,
                        strength=r.strength,
                        settings_hash=hash_constants(noise_hash, constants[r, m]),
                        code=code,
                    )
                    for r, m in cells
                ]
    return cases


@dataclass(frozen=True)
class Method:
    """A row of a table in one model: how it is built, and what it is made of."""

    row: Row
    name: str
    files: Files = NO_FILES

    @property
    def model(self) -> str:
        """The registered model, or the file of the user's network in its place."""
        return str(self.files.networks.get(self.name, self.name))

    @property
    def denoiser(self) -> str | None:
        """The user's denoiser, for plug and play; None: the model's own."""
        plugs_in = "denoiser" in find_model(self.name).takes and "weights" in self.takes
        return self.files.denoiser if plugs_in else None

    @property
    def takes(self) -> frozenset[str]:
        return find_model(self.name).takes

    def source(self, truth: Truth | None = None) -> Source:
        """The weights of the row."""
        return find_source(self.row.weights, self.files, truth)

    def build(self, shape: Sequence[int], strength: float, original: bool) -> Model:
        """The model of the row."""
        denoiser = self.denoiser
        return build_model(self.model, shape, strength, original=original, denoiser=denoiser)

    @functools.cached_property
    def network_hashes(self) -> str:
        """Hashes of the networks behind weights and model; empty without any."""
        found = [hash_network(self.row.weights, self.files)]
        with contextlib.suppress(DlwError):  # the case itself will say why
            found += find_model(self.model).list_networks(self.denoiser).values()
        return "+".join(h[:16] for h in found if h)

    def describe(self, shape: Sequence[int]) -> str:
        """A hash of the constants of model and weights."""
        found = self.row.strength in ("best", "auto")
        strengths = GRID if found else (float(self.row.strength),)
        original = self.row.weights == "original"
        try:
            built = [self.build(shape, s, original) for s in strengths]
            # The oracle is made of the true noise, which has a hash of its own.
            source = None if self.row.weights in ("", "oracle") else self.source()
        except DlwError as error:
            return str(error)
        return hash_constants(built, source, self.denoiser)


def hash_network(weights: str, files: Files = NO_FILES) -> str:
    """SHA-256 of the file of a network, shipped or released with the paper; empty for other weights."""
    if weights in files.reference:
        return hashlib.sha256(files.reference[weights].read_bytes()).hexdigest()
    return store.load_network(weights).sha256 if weights in store.list_networks() else ""


def find_source(weights: str, files: Files = NO_FILES, truth: Truth | None = None) -> Source:
    """The weight source of a row, shipped or released with the paper."""
    if weights in files.reference:
        net, _ = store.import_checkpoint(files.reference[weights])
        return Net(net, weights)
    return resolve(weights, truth)


Group = tuple[Scene, Sequence[Case], Files]
"""Cases that share one noisy image of a scene."""


def run_cases(
    cases: Iterable[Case],
    scenes: Iterable[Scene],
    experiment: Experiment,
    *,
    files: Files = NO_FILES,
    workers: int = 1,
) -> list[Record]:
    """Run what is not known yet; the records of all ``cases``.

    Args:
        files: what the rows need beside the package.
        workers: processes; each one uses a single thread when there are several.
    """
    cases = list(cases)
    by_name = {s.name: s for s in scenes}
    groups: dict[tuple[str, str, int], list[Case]] = defaultdict(list)
    for case in cases:
        if case.key not in experiment.known:
            groups[case.scene, case.noise, case.seed].append(case)
    work = [(by_name[name], some, files) for (name, _, _), some in groups.items()]
    finished = len(cases) - sum(map(len, groups.values()))
    for records in _map_groups(work, workers):
        experiment.add(records)
        finished += len(records)
        experiment.tell(f"{finished} of {len(cases)} cases")
    return [experiment.known[c.key] for c in cases]


def run_table(
    table: Table,
    scenes: Sequence[Scene],
    out: Path,
    seeds: int = 1,
    *,
    files: Files = NO_FILES,
    workers: int = 1,
    tell: Tell | None = None,
) -> list[Record]:
    """The records of a table, in ``out/<table>.jsonl``."""
    cases = plan_cases(table, scenes, range(seeds), files)
    return run_cases(cases, scenes, Experiment(table.name, out, tell), files=files, workers=workers)


def _map_groups(work: Sequence[Group], workers: int) -> Iterable[list[Record]]:
    if workers > 1 and len(work) > 1:
        context = get_context("spawn")
        with ProcessPoolExecutor(workers, context, torch.set_num_threads, (1,)) as pool:
            yield from pool.map(run_group, work)
        return
    if workers > 1:
        torch.set_num_threads(1)
    for group in work:
        yield from ([record] for record in run_each(group))


def make_noisy(scene: Scene, noise: str | int, seed: int) -> Noisy:
    """The noisy image of a group; its stream depends on the scene, the noise and the seed."""
    found = find_noise(noise)
    stream = [seed, found.stream, int(scene.sha256[:8], 16)]
    affected = scene.affected if "affected" in found.takes else None
    return found.apply(scene.data, np.random.default_rng(stream), affected=affected)


def judge_psnr(scene: Scene, noisy: Noisy, x: F32) -> float:
    """PSNR of a restored image where it is judged; bright pixels and gaps have no part."""
    return psnr(noisy.find_target(scene.data), x, valid=noisy.judged)


def run_group(group: Group) -> list[Record]:
    """Records of all cases on one noisy image."""
    return list(run_each(group))


def run_each(group: Group) -> Iterator[Record]:
    """The records of a group, one after the other."""
    scene, cases, files = group
    noisy = make_noisy(scene, cases[0].noise, cases[0].seed)
    restore = Restorer(scene, noisy, files)
    target, judged = noisy.find_target(scene.data), noisy.judged
    for case in cases:
        record: Record = {"key": case.key, **asdict(case), "version": __version__}
        try:
            if case.model == "noisy":
                record |= scores(target, noisy.y, clip=False, valid=judged)
            else:
                x, facts = restore(Row(case.weights, case.strength), case.model, case.seed)
                record |= {**scores(target, x, valid=judged), **facts}
        except DlwError as error:
            record["skipped"] = str(error)
        yield record


class FirstWeights(Source):
    """A source whose weights for one image are known; those of later rounds are computed."""

    def __init__(self, source: Source, values: Tensor) -> None:
        self.source, self.values = source, values
        self.name, self.rounds = source.name, source.rounds
        self.follows_noise, self.wants_original = source.follows_noise, source.wants_original

    def __call__(self, y: Tensor, valid: Tensor, x: Tensor | None = None) -> Tensor:
        return self.values if x is None else self.source(y, valid, x)

    @property
    def modules(self) -> tuple[torch.nn.Module, ...]:
        return self.source.modules


class Restorer:
    """Restores one noisy image with the rows of a table; every weight map is computed once."""

    def __init__(self, scene: Scene, noisy: Noisy, files: Files = NO_FILES) -> None:
        self.scene, self.noisy, self.files = scene, noisy, files
        self.known: dict[str, tuple[Source, Spent]] = {}

    def __call__(self, row: Row, model: str, seed: int = 0) -> tuple[F32, Record]:
        """The restored image, and how it was made: seconds, parameters, settings."""
        method = Method(row, model, self.files)
        if "weights" not in method.takes:
            clock = Clock()
            x = denoise(self.noisy.y, model=method.model, range=(0, 1), seed=seed).cube.data
            own = find_model(method.model).count_parameters(len(x))
            none = {"seconds_weights": 0.0, "processor_weights": 0.0}
            return x, {"parameters": own, **clock.spent(), **none}
        source, before = self._weigh(method)
        clock = Clock()
        found = self._restore(method, source, row.strength, seed)
        spent = clock.spent()
        used = found.report.strength
        built = method.build(found.cube.shape, used, source.wants_original)
        own = find_model(method.model).count_parameters(found.cube.bands, method.denoiser)
        return found.cube.data, {
            "strength_used": used,
            "settings": describe_settings(built),
            "parameters": own + count_source_parameters(source),
            **spent,
            **before,
        }

    def _restore(self, method: Method, source: Source, strength: Strength, seed: int) -> Result:
        if strength == "best":
            tried = [self._restore(method, source, s, seed) for s in GRID]
            return max(tried, key=lambda r: judge_psnr(self.scene, self.noisy, r.cube.data))
        return denoise(
            self.noisy.y,
            model=method.model,
            weights=source,
            strength=strength,
            range=(0, 1),
            paper=True,
            denoiser=method.denoiser,
            seed=seed,
        )

    def _weigh(self, method: Method) -> tuple[Source, Spent]:
        name = method.row.weights
        if name not in self.known:
            clock = Clock()
            source = method.source(self.noisy.truth)
            if not self.noisy.valid.all():  # gaps are filled on the way to the solver
                return source, clock.spent("_weights")
            y = torch.from_numpy(self.noisy.y)
            w = source(y, torch.ones_like(y, dtype=torch.bool))
            self.known[name] = FirstWeights(source, w), clock.spent("_weights")
        return self.known[name]


def count_source_parameters(source: Source) -> int:
    """Parameters of the networks behind a weight source."""
    return sum(p.numel() for net in source.modules for p in net.parameters())


def describe_settings(model: Model) -> str:
    """How a model is run, in a few words.

    >>> describe_settings(build_model("tv", (31, 64, 64)))
    'data term weighted_l2, 20 steps, mu 0.1 growing by 1.05'
    """
    plan = model.schedule
    words = [f"data term {model.fidelity.name}"]
    words += [] if model.rank is None else [f"rank {model.rank}"]
    words += [f"{plan.steps} steps", f"mu {plan.mu:.3g} growing by {plan.growth:g}"]
    return ", ".join(words)
