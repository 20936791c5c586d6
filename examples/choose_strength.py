"""The right strength: chosen without knowing the truth, beside the true error.

python examples/choose_strength.py
"""

import numpy as np
from pictures import show_curves

import hyperdlw

clean = hyperdlw.scenes.synthetic(12, 48, 48, rng=np.random.default_rng(0))
noisy = hyperdlw.noise.case(1, clean.data, np.random.default_rng(1)).y


def quality(strength):
    result = hyperdlw.denoise(noisy, model="nn", strength=strength, range=(0, 1))
    return result.report, hyperdlw.metrics.psnr(clean.data, result.cube.data)


tried = (0.25, 0.5, 1, 2, 4, 8)
scores = [quality(strength)[1] for strength in tried]
print("strength   PSNR in dB (needs the clean cube)")
for strength, score in zip(tried, scores, strict=True):
    print(f"{strength:8g}   {score:.2f}")

report, psnr = quality("auto")
print(f"auto: {report.strength:.3g}, {psnr:.2f} dB (from the noisy cube alone)")
curves = {"tried": (tried, scores), "auto": (report.strength, psnr)}
show_curves("choose_strength.png", curves, "strength", "PSNR in dB", log=True)
