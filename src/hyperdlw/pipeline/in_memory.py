"""The five verbs for a cube in memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ..cube import Cube
from ..solver import State, solve
from .choose import Chosen, ImageRounds, choice_rows, choose_settings
from .options import Options
from .prepare import prepare_cube, put_back
from .report import Counts, Outcome


class InMemory:
    """The five verbs for a cube in memory; after ``restore`` it has the cube and all its weights."""

    resumed: int | None = None

    def __init__(
        self, noisy: Cube, options: Options, watch: Callable[[State[Tensor]], None] | None = None
    ) -> None:
        self.noisy, self.options, self.watch = noisy, options, watch
        self.cube = noisy
        self.weights: NDArray[np.float32] = np.zeros(0, np.float32)

    def prepare(self) -> dict[int, str]:
        """Scale to the unit interval and fill gaps; returns why bands are left out."""
        ready = self.ready = prepare_cube(self.noisy, self.options.range)
        source = self.options.source.on_bands(ready.use)
        self.image = ImageRounds(source, ready.y, ready.valid)
        return ready.skipped

    def weigh(self) -> None:
        """The weights, from the restored image where there is one."""
        self.image.weigh()

    def choose(self) -> Chosen:
        """Strength and rank, on the rows of :func:`choice_rows`."""
        rows = choice_rows(self.image.y.shape)
        self.chosen = choose_settings(self.options, rows, lambda: self.image.on_rows(rows))
        return self.chosen

    def solve(self) -> Outcome:
        """The restored image on the unit interval."""
        image, chosen = self.image, self.chosen
        model = self.options.build(image.y.shape, chosen.strength, chosen.rank)
        found = solve(image.problem(model, self.options.seed or 0), watch=self.watch)
        image.x = found.x
        last = found.residuals[-1] if found.residuals else None
        residuals = {} if last is None else {"primal": last.primal, "dual": last.dual}
        return Outcome(model, found.state.k, residuals, found.converged)

    def restore(self) -> Counts:
        """The image in the units of the cube, beside what took no part."""
        image, ready, noisy, w = self.image, self.ready, self.noisy, self.image.weights
        assert image.x is not None
        self.cube = put_back(noisy, ready, image.x, self.options.fill)
        self.weights = np.zeros(noisy.shape, np.float32)
        self.weights[ready.use] = w.numpy()
        low = int(((w < 0.1) & image.valid).sum())
        return Counts(int(np.count_nonzero(~noisy.valid)), low, int(image.valid.sum()))
