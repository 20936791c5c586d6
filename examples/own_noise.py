"""A noise of your own: made of blocks, to see how a method does on it.

python examples/own_noise.py

With an entry point it has a name in the command line and in training: see the page "Add your own".
"""

import numpy as np
from pictures import compare

import hyperdlw
from hyperdlw.testbed import make_textured_scene
from hyperdlw.testbed.noise import gaussian, stripes


def tired_detector(x, rng):
    """Noise of 5/255, and stripes in every band."""
    quiet = gaussian(x, rng, sigma=(5 / 255, 5 / 255))
    return stripes(quiet, rng, affected=len(x))


clean = make_textured_scene(31, 64, 64, rng=np.random.default_rng(7))
noisy = tired_detector(clean, np.random.default_rng(1))

result = hyperdlw.denoise(noisy.y)

print(f"true stripes: {np.abs(noisy.truth.stripe).mean():.3f} on average")
compare("own_noise.png", clean, noisy.y, result.cube.data)
