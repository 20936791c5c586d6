"""Advice: what a noisy cube tells about its noise, and what to denoise it with.

python examples/advice.py
"""

import numpy as np
from pictures import show_curves

import hyperdlw
from hyperdlw.testbed import make_textured_scene

clean = make_textured_scene(31, 64, 64, rng=np.random.default_rng(7))
noisy = hyperdlw.noise.case(3, clean, np.random.default_rng(1))

found = hyperdlw.advise(noisy.y)

print("take:", found.settings)
for part, reason in found.reasons.items():
    print(f"{part}: {reason}")
bands = np.arange(len(clean))
measured = np.array([band.sigma for band in found.bands])  # as a part of the range of the band
low, high = np.quantile(clean, [0.01, 0.99], axis=(1, 2))
true = noisy.truth.sigma.ravel() / (high - low)
curves = {"measured": (bands, 100 * measured), "true": (bands, 100 * true)}
show_curves("advice.png", curves, "band", "noise, % of the range of the band")
