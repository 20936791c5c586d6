"""The five verbs for a cube in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..cube import Cube
from ..models import find_eigenimages
from ..solver import State, solve
from .choose import Chosen, ImageRounds, choice_rows, choose_settings
from .guard import guard_share, sum_change
from .invented import Belief, count_codes, find_least
from .mild import Blend, choose_blend, is_quiet, spare_model
from .options import Options
from .prepare import count_poor, prepare_cube, put_back
from .protect import Keeper
from .refine import find_level, refine_image, sum_moments
from .report import Counts, Facts, Outcome
from .sample import Sample
from .set_aside import guess_fill
from .uncertainty import average_window, disturb_rows, draw_rows, find_factor
from .whiteness import AuditImage, judge_sums, sum_image


class InMemory:
    """The five verbs for a cube in memory; after ``restore`` it has the cube and all its weights."""

    resumed: int | None = None

    def __init__(
        self, noisy: Cube, options: Options, watch: Callable[[State[Tensor]], None] | None = None
    ) -> None:
        self.noisy, self.options, self.watch = noisy, options, watch
        self.cube = noisy
        self.weights: NDArray[np.float32] = np.zeros(0, np.float32)
        self.facts = Facts()
        self.quiet = self.spared = False
        self.blend: Blend | None = None
        self.uncertainty: NDArray[np.float32] | None = None
        self.invented: NDArray[np.uint8] = np.zeros(noisy.shape, np.uint8)
        self.keeper: Keeper | None = None
        self.level: float | None = None

    def prepare(self) -> None:
        """Scale to the unit interval, set voxels aside, fill gaps, and measure the noise."""
        options, facts = self.options, self.facts
        ready = self.ready = prepare_cube(self.noisy, options.range, options.removes_columns)
        source = options.source.on_bands(ready.use)
        place = options.solver_device
        y, valid = ready.y.to(place), ready.valid.to(place)
        self.image = ImageRounds(source, y, valid, device=options.device)
        facts.note_scaling(ready.scaling, ready.skipped)
        wild = self.noisy.data[ready.use][ready.rows.wild.numpy()]
        facts.wild, facts.bright = wild.size, int(ready.rows.bright.sum())
        facts.fill = guess_fill(wild)
        sample = Sample.gather(ready.read, ready.y.shape, options.in_colour)
        self.sample = replace(sample, sensor=source.sensor)
        if options.protect is not None:
            fitted = options.protect.fit(self.noisy.shape, self.noisy.wavelengths)
            span, asked = ready.limits.span, options.protect
            self.keeper = keeper = Keeper.learn(asked, fitted, ready.use, span, self.sample)
            self.ready = replace(ready, rows=ready.rows.leave(keeper.pixels))
        if options.follows_level:
            facts.law = self.sample.law
            whole = bool(ready.valid.all())
            self.quiet = whole and is_quiet(self.sample, facts.law)
            if options.mild and not count_poor(ready.rows.y):
                dead = float(ready.scaling.dead.mean())
                self.blend = spare_model(self.sample, facts.law, dead, self.quiet)
            self.spared = self.blend is not None

    def weigh(self) -> None:
        """The weights, from the restored image where there is one."""
        if self.spared:
            self.image.weights = self.image.valid.to(self.image.y)
        else:
            self.image.weigh()

    def choose(self) -> Chosen:
        """Strength and rank."""
        image = self.image
        self.trusted = self.sample
        if not self.spared:
            self.trusted = self.sample.trusting(self.sample.blocks_of(image.weights.cpu()))
        rows = choice_rows(image.y.shape)
        self.chosen = choose_settings(
            self.options, image.y.shape, self.trusted, rows, lambda: image.on_rows(rows)
        )
        return self.chosen

    def solve(self, last: bool = True) -> Outcome:
        """The restored image on the unit interval."""
        image, chosen = self.image, self.chosen
        model = self.options.build(image.y.shape, chosen.total(last), chosen.rank)
        if self.spared:
            image.x = image.y
            return Outcome(model, 0, {}, True)
        found = solve(image.problem(model, self.options.seed or 0), watch=self.watch)
        image.x = self._refine(image, found.x) if last else found.x
        end = found.residuals[-1] if found.residuals else None
        residuals = {} if end is None else {"primal": end.primal, "dual": end.dual}
        return Outcome(model, found.state.k, residuals, found.converged)

    def _refine(self, image: ImageRounds, x: Tensor) -> Tensor:
        """What the model found, after steps with a learned prior; the noise level is found once."""
        if not self.options.refines(len(x)):
            return x
        if self.level is None:
            self.level = find_level(self.sample, image.weights.cpu(), x.cpu())
        effort = self.options.effort
        return refine_image(image.y, image.weights, x, self.level, effort.looks, effort.mirror)

    def restore(self) -> Counts:
        """The image in the units of the cube, beside what took no part."""
        image = self.image = self.image.to("cpu")
        ready, noisy, w = self.ready, self.noisy, image.weights
        assert image.x is not None
        x = self._blend(image.x) if self.options.mild or self.quiet else image.x
        x = self._keep(ready.rows.y, x, image.x)
        sd = self._find_deviation(x) if self.options.uncertainty else None
        self._look_back(x, sd)
        fill, gaps_only = self.options.fill, self.facts.nothing_to_do
        if fill or not gaps_only:
            self.cube = put_back(noisy, ready, x, fill, gaps_only)
        self.weights = np.zeros(noisy.shape, np.float32)
        self.weights[ready.use] = w.numpy()
        low = int(((w < 0.1) & ready.valid).sum())
        return Counts(int(np.count_nonzero(~noisy.valid)), low, int(ready.valid.sum()))

    def _look_back(self, x: Tensor, sd: Tensor | None) -> None:
        """Which voxels are invented, and whether what was removed is noise."""
        image, ready, facts, blend = self.image, self.ready, self.facts, self.blend
        assert image.x is not None
        valid, fill, w = self.noisy.valid[ready.use], self.options.fill, image.weights
        least = None
        if not self.options.mild or blend is None or blend.part == 1:
            least = find_least(self.sample, self.sample.blocks_of(w))
        belief = Belief(ready.scaling, fill, blend, least, facts.nothing_to_do)
        found = belief.find(ready.rows, valid, image.x, w)
        self.invented[ready.use] = found
        facts.invented = count_codes(found)
        y, include = ready.rows.y, self.options.include_invented
        after = y.nan_to_num(0.0) if facts.nothing_to_do else x
        law = self.trusted.law if blend is None else blend.law
        sums = sum_image(AuditImage(y, after, image.x, w, sd), belief, law, include)
        facts.audit = judge_sums(sums, ready.use)
        if sd is not None:
            self.uncertainty = np.full(self.noisy.shape, np.nan, np.float32)
            told = ready.rows.touched(valid, fill) & ((found == 0) | include)
            values = sd.numpy() * ready.limits.span
            self.uncertainty[ready.use] = np.where(told, values, np.float32(np.nan))

    def _blend(self, x: Tensor) -> Tensor:
        """Model and eigenimages; or the model, guarded."""
        facts = self.facts
        blend = self.blend
        if blend is None and self.quiet:
            assert facts.law is not None
            blend = Blend(0.0, 0.0, facts.law)
        if blend is None:
            soft = self.trusted.law
            dead = float(self.ready.scaling.dead.mean())
            blend = choose_blend(self.sample, self.sample.blocks_of(x), soft, dead)
        self.blend = blend = replace(blend, maps=self.options.effort.maps)
        if self.options.mild:
            facts.note_blend(blend)
        return self._mix(blend, self.ready.rows.y, x)

    def _mix(self, blend: Blend, y: Tensor, x: Tensor) -> Tensor:
        """The result for an image (NaN: no value is believed) and the model's; the guard is found once."""
        facts = self.facts
        if not self.options.mild:
            filled, none = (
                torch.where(y.isnan(), self.ready.y, y),
                torch.zeros_like(y, dtype=torch.bool),
            )
            if facts.kept is None:
                facts.kept = guard_share(*sum_change(filled, x, none, blend.law))
            return blend.mix(x, filled, x, facts.kept)
        if facts.nothing_to_do:
            return blend.fill(y, x)[0]  # gaps may be filled
        if blend.part == 1.0:
            return x
        filled, lost = blend.fill(y, x)
        images = find_eigenimages(sum_moments(filled), filled[0].numel(), blend.spared.level)
        mild = blend.look(filled, blend.shrink(images, filled))
        if facts.kept is None:
            facts.kept = guard_share(*sum_change(filled, mild, lost, blend.spared))
        return blend.mix(x, filled, mild, facts.kept)

    def _keep(self, y: Tensor, x: Tensor, model: Tensor) -> Tensor:
        """The result with what is protected; ``model``: the image before it was blended."""
        keeper, facts = self.keeper, self.facts
        if keeper is None:
            return x
        total = None
        if keeper.keeps_spectra and not facts.nothing_to_do:
            lost = y.isnan() if self.blend is None else self.blend.fill(y, model)[1]
            x, total = keeper.keep(y, x, lost)
        facts.protected = facts.protected or keeper.describe(total)
        return x

    def _find_deviation(self, x: Tensor) -> Tensor:
        """The standard deviation of every voxel on the unit interval, by a second restoration."""
        image, y, blend = self.image, self.ready.rows.y, self.blend
        assert image.x is not None
        if blend is not None and self.facts.nothing_to_do:
            return blend.law.variance(image.y).sqrt()
        lost = y.isnan() if blend is None else blend.fill(y, image.x)[1]
        part = self.facts.part if self.options.mild else 1.0
        law = blend.law if blend is not None and part == 0 else None
        drawn = draw_rows(slice(0, y.shape[1]), len(y), y.shape[2])
        again = disturb_rows(y, x, lost, law, drawn)
        restored = torch.where(again.isnan(), image.y, again)
        if not self.spared:
            model = self.options.build(y.shape, self.chosen.total(True), self.chosen.rank)
            there = replace(image, y=restored).to(self.options.solver_device)
            found = solve(there.problem(model, self.options.seed or 0)).x
            restored = self._refine(there, found).cpu()
        model_again = restored
        if blend is not None:
            restored = self._mix(blend, again, restored)
        restored = self._keep(again, restored, model_again)
        return find_factor(part) * average_window((restored - x).square()).sqrt()
