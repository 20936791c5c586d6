"""denoise() for a rival: the same scaling, the same result, no weights."""

from __future__ import annotations

import time

import numpy as np
import torch

from .. import __version__
from ..cube import Cube
from ..models import Spec, published
from .prepare import Range, prepare, put_back
from .run import Report, Result, denoiser_network


def denoise_with_rival(
    cube: Cube,
    model: str,
    *,
    range: Range,
    rank: int | None = None,
    seed: int | None = None,
    denoiser: Spec | None = None,
) -> Result:
    """Scale, restore, undo the scaling. The weight map is 1 on every voxel that was used."""
    begin = time.perf_counter()
    ready = prepare(cube, range)
    entry = published.find(model)
    before = time.perf_counter()
    x = published.restore(model, ready.y, rank=rank, seed=seed or 0, denoiser=denoiser)
    solve = time.perf_counter() - before
    restored = put_back(cube, ready, x)
    used = cube.valid & ready.use[:, None, None]
    report = Report(
        model=model,
        original=False,
        rank=rank,
        strength=1.0,
        weights="none",
        networks=({model: entry.sha256} if entry.sha256 else {}) | denoiser_network(denoiser),
        schedule={},
        shape=cube.shape,
        bands_used=int(ready.use.sum()),
        bands_skipped=ready.skipped,
        invalid_voxels=int(np.count_nonzero(~cube.valid)),
        range=range if isinstance(range, str) else f"{range[0]:g} to {range[1]:g}",
        steps=0,
        residuals={},
        converged=True,
        down_weighted=0.0,
        seconds={
            "weights": 0.0,
            "solve": round(solve, 4),
            "total": round(time.perf_counter() - begin, 4),
        },
        seed=seed,
        versions={"hyperdlw": __version__, "torch": torch.__version__, "numpy": np.__version__},
        threads=torch.get_num_threads(),
    )
    return Result(restored, used.astype(np.float32), report, cube)
