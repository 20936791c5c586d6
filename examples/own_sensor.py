"""Your own sensor: its noise, which is not white, is learned from one noisy cube and nothing else.

python examples/own_sensor.py [STEPS]

Every pixel hands some of its noise on to the next of its row, as a slow readout does. The default takes
most of it for texture and keeps it. To adapt is to learn what this noise looks like, from components of the
spectrum in which there is no image.
"""

import sys

import numpy as np
from pictures import show_bands
from scipy.signal import lfilter

import hyperdlw

steps = int(sys.argv[1]) if len(sys.argv) == 2 else 60
clean = hyperdlw.scenes.make_named_scene("made:12", 31, 64)
noise = lfilter([1], [1, -0.6], np.random.default_rng(1).standard_normal(clean.shape), axis=2)
noisy = (clean + 6 / 255 * noise / noise.std()).astype(np.float32)

sensor = hyperdlw.adapt([noisy], "own_sensor.safetensors", steps=steps)

results = {
    "default": hyperdlw.denoise(noisy),
    "adapted": hyperdlw.denoise(noisy, weights=sensor),
}
for title, result in results.items():
    print(f"{title}: {hyperdlw.metrics.psnr(clean, result.cube.data):.2f} dB")
shown = {"noisy": noisy, **{k: v.cube.data for k, v in results.items()}, "clean": clean}
show_bands("own_sensor.png", {title: image[15] for title, image in shown.items()})
