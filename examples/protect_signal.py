"""Protect a signal: a matched filter finds a faint gas in the result as it does in the input.

python examples/protect_signal.py

The gas is put into a scene made by code, so its place is known. It fills few pixels and has narrow lines,
so a restoration takes more than half of it for noise. From the command line:
``hyperdlw denoise in.hdr out.hdr --protect gas.csv``.
"""

import numpy as np
from pictures import show_bands

import hyperdlw
from hyperdlw.testbed import make_textured_scene, signals

scene = make_textured_scene(31, 64, 64, rng=np.random.default_rng(7))
gas = signals.draw_signals(scene.shape, np.random.default_rng(6))["gas"]
amount = 0.1 * gas.place
clean = scene + gas.spectrum[:, None, None] * amount
noisy = (clean + np.random.default_rng(1).normal(0, 0.03, clean.shape)).astype(np.float32)

found = {"clean": clean, "noisy": noisy}
found["restored"] = hyperdlw.denoise(noisy).cube.data
found["protected"] = hyperdlw.denoise(noisy, protect=gas.spectrum).cube.data

shown, middle = {}, noisy.mean(axis=(1, 2), keepdims=True)
pull = np.linalg.solve(np.cov(noisy.reshape(31, -1)), gas.spectrum)
pull /= pull @ gas.spectrum
for name, x in found.items():
    seen = np.tensordot(pull, x - middle, 1)  # the matched filter: gas in every pixel
    contrast = seen[gas.target].mean() - seen[gas.background].mean()
    print(f"{name}: gas {contrast:.3f}, error {np.sqrt(np.mean((x - clean) ** 2)):.4f}")
    shown[name] = seen
print(f"true: gas {amount[gas.target].mean():.3f}")
show_bands("protect_signal.png", shown, limits=(-0.1, 0.15))
