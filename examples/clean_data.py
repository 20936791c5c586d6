"""Clean data is left alone: without noise the cube comes back to the last bit.

python examples/clean_data.py
"""

import numpy as np
from pictures import show_curves

import hyperdlw
from hyperdlw.testbed import make_textured_scene

clean = make_textured_scene(31, 64, 64, rng=np.random.default_rng(7))
same = hyperdlw.denoise(clean).cube.data
print("without noise the cube is the same to the last bit:", bool((same == clean).all()))

before, after, snr = [], [], (20, 50, 150, 500, 1000)
for ratio in snr:
    noisy = hyperdlw.noise.case(f"snr{ratio}", clean, np.random.default_rng(1)).y
    restored = hyperdlw.denoise(noisy).cube.data
    before.append(np.sqrt(((noisy - clean) ** 2).mean()))
    after.append(np.sqrt(((restored - clean) ** 2).mean()))
    print(f"SNR {ratio}: error {before[-1]:.5f} before, {after[-1]:.5f} after")
ratio = np.array(after) / before
curves = {"restored": (snr, ratio), "left alone": (snr, np.ones(5))}
show_curves("clean_data.png", curves, "signal to noise", "error after over error before", log=True)
