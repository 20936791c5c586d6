"""A cube worked on in strips, with its arrays on disk: prepare, weigh, choose, solve, restore.

Every verb is one or more maps over strips or bands whose finished items the journal remembers:

1. prepare: the cube goes to scratch, strip by strip; range, median and mean of every band; the bands in
   use on the unit interval, NaN where nothing was measured;
2. weigh: the numbers of every source, strip by strip or band by band, and their product. A softmax
   needs the largest logit and a sum of exponentials of every strip, other sources the sum of their
   numbers over the measured voxels, so that the mean of the weights is one;
3. choose: strength and rank on the rows that a cube in memory takes, too;
4. solve: the steps of the solver over all strips (:mod:`hyperdlw.solver.strip_solver`);
5. restore: strips of the result, beside what the cube holds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch

from .. import __version__
from ..errors import BadOption
from ..io import CubeReader, identify_files
from ..models import find_eigenimages
from ..solver import DiskArray, DiskProblem, StripSolver, Whole, use_stages
from ..weights import Source, Uniform
from . import strip_work
from .choose import Chosen, ImageRounds, choice_rows, choose_settings
from .guard import guard_share
from .invented import Belief, find_least
from .job import Band, Job, Reader
from .journal import Journal, Watch, key_of, open_journal
from .mild import Blend, choose_blend, is_quiet, spare_model
from .options import Options
from .plan import Plan
from .prepare import BandFacts, Scaling, check_believed, find_scaling, select_usable
from .products import StripOutputs
from .protect import Keeper
from .refine import Refinement, find_level
from .report import Counts, Facts, Outcome
from .sample import Sample
from .uncertainty import find_factor
from .whiteness import AuditSums, judge_sums
from .workers import Serial, open_executor


class InStrips:
    """The five verbs for a cube in strips."""

    def __init__(
        self, reader: Reader, options: Options, plan: Plan, work: Journal, outputs: StripOutputs
    ) -> None:
        self.reader, self.options, self.outputs = reader, options, outputs
        self.job, self.work = Job(work.folder, plan, options, reader.shape[0]), work
        self.resumed = work.resumed
        self.facts = Facts()
        self.blend: Blend | None = None
        self.level: float | None = None

    def prepare(self) -> None:
        """Copy, look at the bands, scale those that can be used, and measure the noise."""
        job, work, reader, facts = self.job, self.work, self.reader, self.facts
        copy = partial(strip_work.copy_strip, job, reader)
        work.map("copy", copy, job.plan.strips, [job.raw], here=not reader.lazy)
        look = partial(strip_work.describe_band, job, reader.good_bands)
        found = work.map("look", look, range(job.stored))
        every = [BandFacts(**f | {"dead": tuple(f["dead"])}) for f in found]
        mask, skipped = select_usable(every)
        use = tuple(np.flatnonzero(mask).tolist())
        plan = replace(job.plan, shape=(len(use), *job.plan.shape[1:]))
        job = replace(job, plan=plan, use=use)
        place = job.folder / "scaling"

        def scale(_: int) -> None:
            kept = [f for f in every if not f.why]
            read, options = partial(strip_work.read_bands, job), job.options
            shape = plan.shape
            find_scaling(read, shape, kept, options.range, options.removes_columns).save(place)

        work.map("limits", scale, [0], here=True)
        scaling = Scaling.load(place)
        job = replace(job, scaling=scaling)
        aside = work.map("scale", partial(strip_work.scale_strip, job), plan.strips, [job.y])
        job.raw.path.unlink(missing_ok=True)
        bands = work.map("measure", partial(strip_work.measure_band, job), range(len(use)))
        job = replace(job, bands=tuple(Band(**b) for b in bands))
        check_believed(job.measured, sum(f.count for f in every if not f.why), job.options.range)
        facts.note_scaling(scaling, skipped)
        wild, bright, poor, fills = zip(*aside, strict=True)
        facts.wild, facts.bright = sum(wild), sum(bright)
        facts.fill = next((f for f in fills if f is not None), None)
        sample = Sample.gather(job.y.read, plan.shape, job.options.in_colour)
        self.sample = replace(sample, sensor=job.options.source.sensor)
        if (asked := job.options.protect) is not None:
            fitted = asked.fit(reader.shape, reader.wavelengths)
            span, mask = scaling.limits.span, job.use_mask
            job = replace(job, keeper=Keeper.learn(asked, fitted, mask, span, self.sample))
        if job.options.follows_level:
            facts.law = self.sample.law
            whole = job.measured == math.prod(plan.shape)
            quiet = whole and is_quiet(self.sample, facts.law)
            if job.options.mild and not sum(poor):
                dead = float(scaling.dead.mean())
                self.blend = spare_model(self.sample, facts.law, dead, quiet)
            job = replace(job, quiet=quiet, spared=self.blend is not None)
        self.job = job

    def weigh(self) -> None:
        """The weights, from the restored image where there is one."""
        job, work = self.job, self.work
        work.round += job.result is not None
        source = Uniform() if job.spared else job.options.source.on_bands(job.use_mask)
        source.check_shape(job.plan.shape)
        factors = [self._find_factor(j, part) for j, part in enumerate(source.factors)]
        scale, strips = None, job.plan.strips
        if len(factors) > 1:
            sums = work.map(
                "product", partial(strip_work.weights_strip, job, factors, None, None), strips
            )
            scale = source.scale(job.measured, sum(sums))
        work.map(
            "weights",
            partial(strip_work.weights_strip, job, factors, scale, job.w),
            strips,
            [job.w],
        )
        for f in factors:
            f.file.path.unlink(missing_ok=True)

    def _find_factor(self, j: int, part: Source) -> strip_work.Factor:
        """The weights of one source, and their constants."""
        job, by_band = self.job, part.sees == "band"
        if part.sees == "image":
            raise BadOption(
                f"the weights '{part.name}' need the whole cube in memory; raise --memory"
            )
        out = job.array(f"factor{j}")
        numbers = partial(strip_work.raw_band if by_band else strip_work.raw_strip, job, part, out)
        items = range(len(job.use)) if by_band else job.plan.strips
        found = self.work.map(f"weights {j + 1}: {part.name}", numbers, items, [out])
        top = max(m for m, _ in found)
        total = sum(s * math.exp(m - top) for m, s in found)
        if part.logits:
            return strip_work.Factor(out, job.measured / total, True, top)
        return strip_work.Factor(out, part.scale(job.measured, total))

    def choose(self) -> Chosen:
        """Strength and rank; an automatic strength on rows that are held in memory."""
        job = self.job
        trusted = self.sample
        if not job.spared:
            trusted = self.sample.trusting(self.sample.blocks_of(job.w.read))
        self.trusted = trusted
        rows, shape = choice_rows(job.plan.shape), job.plan.shape

        def read() -> ImageRounds:
            source = self.options.source.on_bands(job.use_mask).on_rows(rows)
            place = self.options.solver_device
            y, valid = (v.to(place) for v in job.filled(rows))
            w = job.w.read(rows).to(place)
            return ImageRounds(source, y, valid, w, device=self.options.device)

        def look(_: int) -> dict[str, object]:
            return asdict(choose_settings(self.options, shape, trusted, rows, read))

        (found,) = self.work.map("choose", look, [0], here=True)
        where = found.pop("rows")
        chosen = Chosen(**found, rows=None if where is None else (where[0], where[1]))
        self.job = replace(job, chosen=chosen)
        return chosen

    def solve(self, last: bool = True) -> Outcome:
        """The restored image on the unit interval, on disk."""
        job, work = self.job, self.work
        model = job.build(job.plan.shape[1], last)
        if job.spared:
            self.job = replace(job, result=job.y)
            return Outcome(model, 0, {}, True)
        folder = job.folder / f"steps{work.round}"
        folder.mkdir(exist_ok=True)
        place = self.options.solver_device
        means = torch.tensor([b.mean for b in job.bands], device=place)
        arrays = replace(job.y, device=place), replace(job.w, device=place), Whole(means)
        seed, staged = self.options.seed or 0, use_stages(model)
        problem = DiskProblem(folder, job.plan, staged, model.schedule, *arrays, seed)
        image, steps, now, converged = StripSolver(problem, work).solve()
        self.job = replace(job, result=replace(image, device="cpu"))
        if last:
            self._refine()
        return Outcome(model, steps, {"primal": now.primal, "dual": now.dual}, converged)

    def _refine(self) -> None:
        """What the model found, after steps with a learned prior; the noise level is found once."""
        job, work, strips = self.job, self.work, self.job.plan.strips
        assert job.result is not None
        if not self.options.refines(len(job.use)):
            return
        if self.level is None:
            self.level = find_level(self.sample, job.w.read, job.result.read)
        pixels = job.plan.shape[1] * job.plan.shape[2]
        for look in range(self.options.effort.looks):
            work.map(f"approach {look}", partial(strip_work.approach_strip, job, look), strips)
            moments = sum(np.load(job.folder / f"{job.tag}approach{look}-{i}.npy") for i in strips)
            refinement = Refinement.learn(torch.from_numpy(moments), pixels, self.level)
            out = job.array(f"refined{look}")
            refine = partial(strip_work.refine_strip, job, refinement, look, out)
            work.map(f"refine {look}", refine, strips, [out])
            job = replace(job, result=out)
        self.job = job

    def restore(self) -> Counts:
        """Strips of the result in the units of the cube, handed over to the outputs."""
        model = self.job.image
        if self.options.mild or self.job.quiet:
            self._blend()
        self._protect(model)
        if self.options.uncertainty:
            self._find_deviation(model)
        self._look_back(model)
        job, pens = self.job, self.outputs.open()
        executor = self.work.executor if pens.shared and self.reader.lazy else Serial()
        work = partial(strip_work.write_strip, job, self.reader, pens)
        found = [counts for _, counts in executor.run(work, job.plan.strips)]
        invalid, low, clipped, *codes = map(sum, zip(*found, strict=True))
        self.facts.invented = codes
        self.outputs.finish(job)
        return Counts(invalid, low, job.measured, clipped)

    def _look_back(self, model: DiskArray) -> None:
        """Whether what was removed is noise; ``model``: the image before it was blended."""
        job, blend = self.job, self.blend
        assert job.scaling is not None
        least = None
        if not self.options.mild or blend is None or blend.part == 1:
            least = find_least(self.sample, self.sample.blocks_of(job.w.read))
        belief = Belief(job.scaling, self.options.fill, blend, least, job.untouched)
        self.job = job = replace(job, model=model, belief=belief)
        law = self.trusted.law if blend is None else blend.law
        found = self.work.map("audit", partial(strip_work.audit_strip, job, law), job.plan.strips)
        parts = [AuditSums(*(torch.tensor(v, dtype=torch.float64) for v in part)) for part in found]
        self.facts.audit = judge_sums(sum(parts, AuditSums.start(len(job.use))), job.use_mask)

    def _blend(self) -> None:
        """Model and eigenimages, or the model, guarded; on disk."""
        job, facts = self.job, self.facts
        assert job.scaling is not None
        blend = self.blend
        if blend is None and job.quiet:
            assert facts.law is not None
            blend = Blend(0.0, 0.0, facts.law)
        if blend is None:
            x, dead = self.sample.blocks_of(job.image.read), float(job.scaling.dead.mean())
            blend = choose_blend(self.sample, x, self.trusted.law, dead)
        self.blend = blend = replace(blend, maps=self.options.effort.maps)
        if self.options.mild:
            facts.note_blend(blend)
        self._mix(blend)

    def _mix(self, blend: Blend) -> None:
        """The result for the image and the model's, on disk; the guard is found once."""
        job, work, facts = self.job, self.work, self.facts
        strips = job.plan.strips
        if not self.options.mild:
            found = work.map("guard", partial(strip_work.measure_strip, job, blend), strips)
            self._finish(job, blend, found, job.y, job.image)
            return
        if blend.part == 1.0 or facts.nothing_to_do:
            self.job = replace(job, untouched=facts.nothing_to_do)
            return
        filled, shrunk, mild = map(job.array, ("filled", "shrunk", "mild"))
        work.map("fill", partial(strip_work.fill_strip, job, blend), strips, [filled])
        moments = sum(np.load(job.folder / f"{job.tag}moments-{i}.npy") for i in strips)
        pixels = job.plan.shape[1] * job.plan.shape[2]
        images = find_eigenimages(torch.from_numpy(moments), pixels, blend.spared.level)
        work.map(
            "eigenimages", partial(strip_work.denoise_strip, job, blend, images), strips, [shrunk]
        )
        found = work.map("second look", partial(strip_work.look_strip, job, blend), strips, [mild])
        self._finish(job, blend, found, filled, mild)

    def _finish(
        self, job: Job, blend: Blend, sums: list[list[list[float]]], *images: DiskArray
    ) -> None:
        """The result, from what every strip has moved and its noise, the image before and after."""
        moved, noise = (torch.tensor(v).double().sum(0) for v in zip(*sums, strict=True))
        if self.facts.kept is None:
            self.facts.kept = guard_share(moved, noise)
        kept = self.facts.kept
        out = job.array("blended")
        mix = partial(strip_work.mix_strip, job, blend, kept, images, out)
        self.work.map("blend", mix, job.plan.strips, [out])
        self.job = replace(job, result=out)

    def _protect(self, model: DiskArray) -> None:
        """The result with what is protected, on disk; ``model``: the image before it was blended."""
        job, facts = self.job, self.facts
        if job.keeper is None:
            return
        total = None
        if job.keeper.keeps_spectra and not job.untouched:
            out = job.array("protected")
            protect = partial(strip_work.protect_strip, job, self.blend, model, out)
            found = self.work.map("protect", protect, job.plan.strips, [out])
            total = torch.tensor(found).double().sum(0)
            self.job = replace(job, result=out)
        facts.protected = facts.protected or job.keeper.describe(total)

    def _find_deviation(self, model: DiskArray) -> None:
        """The standard deviation of every voxel, on disk, by a second restoration with the same weights."""
        job, work, blend, strips = self.job, self.work, self.blend, self.job.plan.strips
        out = job.array("deviation")
        if job.untouched:
            assert blend is not None
            work.map(
                "deviation", partial(strip_work.read_law_strip, job, blend.law, out), strips, [out]
            )
        else:
            part = self.facts.part if self.options.mild else 1.0
            law = blend.law if blend is not None and part == 0 else None
            second = replace(job, tag="again-", result=None)
            disturb = partial(strip_work.disturb_strip, job, model, blend, law, second.y)
            work.map("disturb", disturb, strips, [second.y])
            self.job, work.round = second, work.round + 1
            self.solve()
            model_again = self.job.image
            if blend is not None:
                self._mix(blend)
            self._protect(model_again)
            compare = partial(strip_work.compare_strip, job, self.job.image, find_factor(part), out)
            work.map("deviation", compare, strips, [out])
        self.job = replace(job, deviation=out)


@contextmanager
def open_strips(
    reader: Reader,
    options: Options,
    plan: Plan,
    outputs: StripOutputs,
    folder: Path,
    watch: Watch | None = None,
) -> Iterator[InStrips]:
    """The verbs for a cube in strips.

    Args:
        folder: for scratch files, which go at the end. If the run is cut short, the next one with the
            same file and options goes on where it was.
        watch: told of every finished item.
    """
    # The others decide the numbers through the plan, if at all.
    others = "source", "memory", "workers", "scheduler"
    decides = {k: v for k, v in vars(options).items() if k not in others}
    facts = {
        "input": identify_files(reader.path) if isinstance(reader, CubeReader) else None,
        "encoding": asdict(reader.encoding) if isinstance(reader, CubeReader) else None,
        "plan": asdict(plan),
        "options": decides | {"weights": [options.source.name, options.source.digest]},
        "networks": options.networks,
        "versions": [__version__, torch.__version__],
    }
    with (
        open_executor(options.workers, options.scheduler) as executor,
        open_journal(folder, key_of(facts), plan.disk) as journal,
    ):
        journal.executor, journal.watch = executor, watch
        yield InStrips(reader, options, plan, journal, outputs)
