"""Choose the strength without knowing the truth: the estimated risk against the true error.

python examples/choose_strength.py
"""

import numpy as np

import hyperdlw

clean = hyperdlw.scenes.synthetic(12, 48, 48, rng=np.random.default_rng(0))
noisy = hyperdlw.noise.case(1, clean.data, np.random.default_rng(1)).y


def quality(strength):
    result = hyperdlw.denoise(noisy, model="nn", strength=strength, range=(0, 1))
    return result.report, hyperdlw.metrics.psnr(clean.data, result.cube.data)


print("strength   PSNR in dB (needs the clean cube)")
for strength in (0.25, 0.5, 1, 2, 4, 8):
    print(f"{strength:8g}   {quality(strength)[1]:.2f}")

report, psnr = quality("auto")
print(f"auto: {report.strength:.3g}, {psnr:.2f} dB (from the noisy cube alone)")
