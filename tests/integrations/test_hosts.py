"""The integrations in their real hosts; where a host is not installed, its test is skipped.

QGIS comes with Debian (``apt install qgis``), napari and HyperSpy with pip.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hyperdlw

QGIS = shutil.which("qgis_process.bin") or shutil.which("qgis_process")
"""The script of Debian 12 adds an option that its program refuses; the program is beside it."""
HERE = Path(__file__).parents[2] / "integrations"
OPTIONS = {"model": "tv", "weights": "uniform"}


@pytest.fixture
def noisy() -> hyperdlw.Cube:
    clean = hyperdlw.scenes.synthetic(6, 20, 24, rng=np.random.default_rng(0))
    return clean.with_data(hyperdlw.noise.case(5, clean.data, np.random.default_rng(1)).y)


def test_they_are_small() -> None:
    files = [p for p in HERE.rglob("*.py") if "__pycache__" not in p.parts]
    assert len(files) == 3
    assert all(len(p.read_text(encoding="utf-8").splitlines()) < 100 for p in files)


@pytest.mark.slow
@pytest.mark.skipif(QGIS is None, reason="needs qgis_process (Debian: qgis)")
def test_qgis(tmp_path: Path, noisy: hyperdlw.Cube) -> None:
    source, target = tmp_path / "in.tif", tmp_path / "out.tif"
    hyperdlw.save_cube(noisy, source)
    scripts = tmp_path / "profiles" / "default" / "processing" / "scripts"
    scripts.mkdir(parents=True)
    shutil.copy(HERE / "qgis" / "hyperdlw_denoise.py", scripts)
    program = tmp_path / "hyperdlw"
    call = "import sys; from hyperdlw.app.cli.main import main; main()"
    path = Path(hyperdlw.__file__).parents[1]
    program.write_text(f'#!/bin/sh\nPYTHONPATH={path} exec {sys.executable} -c "{call}" "$@"\n')
    program.chmod(0o755)
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    env |= {"QT_QPA_PLATFORM": "offscreen", "QGIS_CUSTOM_CONFIG_PATH": str(tmp_path)}

    def qgis(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(QGIS), *words], env=env, capture_output=True, text=True, timeout=600
        )

    qgis("plugins", "enable", "processing")
    asked = [f"INPUT={source}", f"OUTPUT={target}", f"PROGRAM={program}", "MODEL=tv"]
    ran = qgis("run", "script:hyperdlw_denoise", "--", *asked)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    ours = hyperdlw.denoise(hyperdlw.open_cube(source), model="tv").cube
    np.testing.assert_allclose(hyperdlw.open_cube(target).data, ours.data, atol=1e-5)
    asked[0] = f"INPUT={program}"
    assert qgis("run", "script:hyperdlw_denoise", "--", *asked).returncode != 0


@pytest.mark.slow
def test_napari(tmp_path: Path, noisy: hyperdlw.Cube, monkeypatch: pytest.MonkeyPatch) -> None:
    napari = pytest.importorskip("napari")
    npe2 = pytest.importorskip("npe2")
    from napari.layers import Image

    monkeypatch.setenv("QT_QPA_PLATFORM", "offscreen")
    monkeypatch.syspath_prepend(str(HERE / "napari"))
    import hyperdlw_napari

    manifest = npe2.PluginManifest.from_file(HERE / "napari" / "hyperdlw_napari" / "napari.yaml")
    manifest.validate_imports()
    path = tmp_path / "in.hdr"
    hyperdlw.save_cube(noisy, path)
    assert hyperdlw_napari.find_reader(str(tmp_path / "no.hdr")) is None
    manager = npe2.PluginManager()
    manager.register(manifest)
    monkeypatch.setattr(npe2.PluginManager, "instance", lambda: manager)
    (layer,) = npe2.read([str(path)], stack=False)
    # A window needs OpenGL, which a machine without a screen has not: the model of the viewer does.
    from qtpy.QtWidgets import QApplication

    app = QApplication.instance() or QApplication([])
    assert app is not None
    viewer = napari.components.ViewerModel()
    image = viewer.add_layer(Image(layer[0], **layer[1]))
    widget = hyperdlw_napari.make_widget()
    data, about, kind = widget(image=image, model="tv")
    viewer.add_image(data, **about)
    assert len(viewer.layers) == 2
    assert kind == "image"
    assert about["name"].endswith("restored")
    ours = hyperdlw.denoise(hyperdlw.open_cube(path), model="tv").cube
    np.testing.assert_array_equal(data, ours.data)
    hyperdlw.save_cube(about["metadata"]["cube"], tmp_path / "out.hdr")


@pytest.mark.slow
def test_hyperspy(noisy: hyperdlw.Cube, monkeypatch: pytest.MonkeyPatch) -> None:
    hs = pytest.importorskip("hyperspy.api")
    monkeypatch.syspath_prepend(str(HERE / "hyperspy"))
    from hyperdlw_hyperspy import denoise_signal

    signal = hs.signals.Signal1D(noisy.data.transpose(1, 2, 0).copy())
    signal.axes_manager[-1].units = "nm"
    restored = denoise_signal(signal, **OPTIONS)
    ours = hyperdlw.denoise(noisy.data, **OPTIONS).cube.data
    np.testing.assert_array_equal(restored.data, ours.transpose(1, 2, 0))
    assert restored.axes_manager[-1].units == "nm"
    assert json.dumps(restored.metadata.hyperdlw.as_dictionary(), default=str)
    with pytest.raises(ValueError, match="two navigation axes"):
        denoise_signal(signal.inav[0])
