"""How sure is it? A standard deviation for every voxel of the result.

python examples/uncertainty.py

The result is made noisy once more and restored again; what changes is what cannot be relied on. Voxels
without a measurement behind them (dead columns, impulses) have none; the picture shows them in red. From
the command line: ``hyperdlw denoise in.hdr out.hdr --save-uncertainty sd.hdr``.
"""

import numpy as np
from pictures import RESTORED, place_beside, save_figure, show_band, start_figure

import hyperdlw
from hyperdlw.testbed import make_textured_scene

clean = make_textured_scene(31, 64, 64, rng=np.random.default_rng(7))
noisy = hyperdlw.noise.case(5, clean, np.random.default_rng(1)).y

result = hyperdlw.denoise(noisy, uncertainty=True)
restored, sd = result.cube.data, result.uncertainty

known = np.isfinite(sd)
inside = np.abs(restored - clean)[known] < 1.645 * sd[known]
print(f"the truth is in the 90 % interval in {100 * inside.mean():.0f} % of the measured voxels")
print(f"standard deviation from {np.nanquantile(sd, 0.05):.4f} to {np.nanquantile(sd, 0.95):.4f}")

band = int(np.nanmean(sd, axis=(1, 2)).argmax())
whole = np.where(known.all(axis=0), sd.mean(axis=0), 0)  # pixels that are measured in every band
row, col = (int(i) for i in np.unravel_index(whole.argmax(), whole.shape))
figure, ((one, two), (three, curve)) = start_figure(2, 2)
limits = np.quantile(clean[band], [0.002, 0.998])
show_band(one, f"noisy, band {band}", noisy[band], limits)
show_band(two, "restored", restored[band], limits)
show_band(three, "standard deviation", sd[band], (0, np.nanmax(sd[band])))
low, high = (restored + sign * 1.645 * sd for sign in (-1, 1))
curve.fill_between(range(31), low[:, row, col], high[:, row, col], color=RESTORED, alpha=0.3)
curve.plot(restored[:, row, col], color=RESTORED, label="restored")
curve.plot(clean[:, row, col], "--", color="0.2", label="truth")
place_beside(curve, "90 % interval")
save_figure(figure, "uncertainty.png")
