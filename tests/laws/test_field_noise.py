"""The generators against their own laws, and against the figures of real instruments."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.ndimage import median_filter

from hyperdlw.errors import BadOption
from hyperdlw.testbed import FIELD_NOISES, find_noise, make_textured_scene
from hyperdlw.testbed import field_blocks as fn
from hyperdlw.testbed import sensor_laws as laws
from hyperdlw.train import Recipe

FILES = {
    "emit": "emit_noise.txt",
    "tanager": "tanager1_noise_20241016.txt",
    "aviris-ng": "avirisng_noise.txt",
}


@pytest.fixture
def sensors(shared):
    """The tables of real instruments, or a skip."""
    folder = shared / "data" / "sensors"
    if not folder.is_dir():
        pytest.skip("the tables of instruments are not here")
    return folder


@pytest.fixture(scope="module")
def scene():
    return make_textured_scene(31, 48, 64, rng=np.random.default_rng(3))


@pytest.mark.parametrize("name", FIELD_NOISES)
def test_truth_explains_the_noise(name, scene):
    d = find_noise(name).apply(scene, np.random.default_rng(0))
    again = find_noise(name).apply(scene, np.random.default_rng(0))
    assert np.array_equal(d.y, again.y, equal_nan=True)
    assert d.y.dtype == np.float32
    use = d.valid & d.truth.intact
    rest = (d.y - d.find_target(scene) - d.truth.stripe)[use]
    sigma = np.broadcast_to(d.truth.sigma, d.y.shape)[use]
    if name == "none":
        assert np.array_equal(d.y, scene)
        assert d.judged is None
        return
    z = rest[sigma > 1e-9] / sigma[sigma > 1e-9]
    assert abs(z.std() - 1) < 0.02
    assert np.abs(rest[sigma <= 1e-9]).max(initial=0) < 1e-6


def test_levels(scene):
    rng = np.random.default_rng
    assert np.allclose(find_noise("even30").apply(scene, rng(0)).truth.sigma, 30 / 255)
    s = find_noise("mild").apply(scene, rng(0)).truth.sigma
    assert s.min() >= 2 / 255
    assert s.max() <= 10 / 255
    assert np.allclose(fn.add_proportional(scene, rng(0), snr=50).truth.sigma, scene / 50)
    p = fn.count_photons(np.full((1, 300, 300), 0.25), rng(0), full=100)
    assert p.y.mean() == pytest.approx(0.25, rel=0.01)
    assert p.y.std() == pytest.approx(0.05, rel=0.02)


@pytest.mark.parametrize("name", FILES)
def test_photon_law_is_the_published_one(name, sensors):
    nm, a, b, c = np.loadtxt(sensors / FILES[name]).T[:4]
    sound = ~(((nm > 1345) & (nm < 1445)) | ((nm > 1815) & (nm < 1935)))
    nm, a, b, c = nm[sound], a[sound], b[sound], c[sound]
    for radiance in (0.5, 2.0, 8.0):
        published = np.abs(a * np.sqrt(b + radiance) + c)
        ours = laws.INSTRUMENTS[name].find_std(np.full(len(nm), radiance), nm)
        off = np.abs(np.log(ours / published))
        assert np.median(off) < 0.01
        assert np.quantile(off, 0.95) < 0.05


@pytest.mark.parametrize("name", FILES)
def test_instrument_noise_follows_its_law(name):
    nm = np.array([450.0, 850.0, 1650.0, 2200.0])
    x = np.full((4, 150, 150), 0.4, np.float32)
    d = fn.add_instrument(x, np.random.default_rng(1), name=name, wavelengths=nm)
    one = laws.find_unit_radiance(nm)
    want = laws.INSTRUMENTS[name].find_std(0.4 * one, nm) / one
    assert np.allclose((d.y - x).std(axis=(1, 2)), want, rtol=0.03)


def _bad_figures(dead):
    """Share of dead elements, share of columns touched, longest run, share of runs of one channel."""
    edge = np.diff(np.pad(dead.astype(int), ((1, 1), (0, 0))), axis=0)
    starts = np.argwhere(edge.T == 1)[:, 1]
    ends = np.argwhere(edge.T == -1)[:, 1]
    runs = ends - starts
    return dead.mean(), dead.any(axis=0).mean(), runs.max(), (runs == 1).mean()


def test_dead_elements_look_like_emit(sensors):
    bad = np.fromfile(sensors / "EMIT_BadElements_20220307", "<i2").reshape(328, 1280) != 0
    real = _bad_figures(bad)
    x = np.zeros((328, 1, 1280), np.float32)
    made = np.array(
        [
            _bad_figures(fn.kill_elements(x, np.random.default_rng(s)).truth.dead[:, 0])
            for s in range(12)
        ]
    )
    share, touched, longest, single = made.mean(axis=0)
    assert share == pytest.approx(real[0], rel=0.25)
    assert touched == pytest.approx(real[1], rel=0.1)
    assert 15 <= longest <= 32  # two runs may touch
    assert single == pytest.approx(real[3], abs=0.08)


def test_dead_elements_are_fixed_along_track(scene):
    d = fn.kill_elements(scene, np.random.default_rng(0), times=20)
    dead = d.truth.dead
    assert dead.any()
    assert (dead == dead[:, :1]).all()
    assert np.ptp(np.where(dead, d.y, 0), axis=1).max() == 0


def _gain_figures(g):
    """rms per band; mean correlation 1 and 40 bands apart; share of five components."""
    g = g - g.mean(axis=1, keepdims=True)
    rms = g.std(axis=1)
    z = g / rms[:, None]
    c = z @ z.T / g.shape[1]
    e = np.linalg.eigvalsh(g @ g.T)
    return rms, np.diag(c, 1).mean(), np.diag(c, 40).mean(), e[-5:].sum() / e.sum()


def test_column_gains_look_like_hypso(sensors):
    real = np.load(sensors / "hypso1_destriping_nominal_v1.npz")["arr_0"].T[10:110] - 1
    # Slow changes over the columns are the lens; the columns are what is left.
    rms, near, far, five = _gain_figures(real - median_filter(real, (1, 101)))
    x = np.ones((100, 1, 684), np.float32)
    made = [
        _gain_figures(fn.change_gains(x, np.random.default_rng(s)).y[:, 0] - 1) for s in range(6)
    ]
    middle = np.mean([np.median(m[0]) for m in made])
    assert middle == pytest.approx(np.median(rms), rel=0.2)
    assert min(m[0].min() for m in made) > 0.0018
    assert max(m[0].max() for m in made) < 0.007
    assert np.mean([m[1] for m in made]) == pytest.approx(near, abs=0.03)
    assert np.mean([m[2] for m in made]) == pytest.approx(far, abs=0.08)
    assert np.mean([m[3] for m in made]) == pytest.approx(five, abs=0.12)


def test_offsets_are_shared_by_bands_and_drift(scene):
    o = fn.shift_columns(scene, np.random.default_rng(2)).truth.stripe
    assert np.sqrt((o**2).mean()) == pytest.approx(0.08, rel=1e-3)
    s = np.linalg.svd(o.mean(axis=1), compute_uv=False)
    assert (s[:4] ** 2).sum() / (s**2).sum() > 0.9
    moving = o - o.mean(axis=1, keepdims=True)
    assert 0.05 < np.sqrt((moving**2).mean()) / 0.08 < 0.3


def test_bright_pixels_and_gaps_are_not_judged(scene):
    d = find_noise("bright200").apply(scene, np.random.default_rng(0))
    clean, bright = d.find_target(scene), ~d.judged.all(axis=0)
    assert bright.sum() == round(0.002 * scene[0].size)
    assert np.array_equal(clean[:, ~bright], scene[:, ~bright])
    assert clean[:, bright].mean() > 100 * scene.mean()
    g = find_noise("gaps").apply(scene, np.random.default_rng(0))
    assert np.array_equal(g.judged, g.valid)
    assert 0 < (~g.valid).mean() < 0.15
    assert (~g.valid).all(axis=0).any()


def test_recipes_take_every_noise_that_leaves_the_scene_as_it_is():
    """A gap or a bright pixel in a patch would make the loss NaN, or its own."""
    refused = {name for name in FIELD_NOISES if not find_noise(name).leaves_scene()}
    assert refused == {"bright20", "bright200", "gaps"}
    for name in refused:
        with pytest.raises(BadOption, match=f"'{name}' makes gaps or bright pixels"):
            Recipe("one", ("nn",), noise=("mild", name))


def test_scene_has_no_noise_of_its_own(scene):
    """The last singular values vanish: nothing in it is independent from band to band."""
    m = scene.reshape(31, -1).astype(float)
    s = np.linalg.svd(m - m.mean(axis=1, keepdims=True), compute_uv=False)
    assert s[-1] / s[0] < 2e-4
    assert s[8] / s[0] > 1e-3
