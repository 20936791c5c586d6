"""Draw the pictures of the guide to the audit: ``python docs/_tools/audit.py`` (needs Chromium and selenium).

A scene made by code (made:16, 31 bands of 96x96 pixels, mild noise) is restored by the plain command and by
``lrtv`` at 25 times the right strength. Of each audit page one part is kept: ``figures/audit.png`` is the top
of the first, ``figures/audit-structured.png`` what was removed on the second.
"""

from __future__ import annotations

import base64
import io
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from PIL import Image
from selenium import webdriver

import hyperdlw
from hyperdlw.testbed import find_noise
from hyperdlw.testbed.textured import make_named_scene

FIGURES = Path(__file__).parents[1] / "figures"
WIDTH, SCALE = 1180, 0.75


def main() -> None:
    clean = make_named_scene("made:16", 31, 96)
    noisy = find_noise("mild").apply(clean, np.random.default_rng(0)).y.astype(np.float32)
    cube = hyperdlw.Cube(noisy, np.ones(noisy.shape, bool), np.linspace(400, 1000, 31))
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", f"--window-size={WIDTH},900"):
        options.add_argument(flag)
    driver = webdriver.Chrome(options, webdriver.ChromeService("/usr/bin/chromedriver"))
    try:
        with TemporaryDirectory() as folder:
            page = Path(folder) / "page.html"
            result = hyperdlw.denoise(cube, uncertainty=True)
            result.save_audit(page, title="scene.hdr")
            print(result.audit.describe(cube.wavelengths))
            driver.get(page.as_uri())
            shoot(driver, "header", "section:nth-of-type(3)", FIGURES / "audit.png")
            result = hyperdlw.denoise(cube, model="lrtv", strength=25, uncertainty=True)
            result.save_audit(page, title="scene.hdr", overwrite=True)
            print(result.audit.describe(cube.wavelengths))
            driver.get(page.as_uri())
            shoot(driver, "section:nth-of-type(4)", ".row", FIGURES / "audit-structured.png")
    finally:
        driver.quit()


def shoot(driver: webdriver.Chrome, first: str, last: str, path: Path) -> None:
    """From one element to another, or to one inside it, as a PNG of few colours."""
    find = (
        "const a = document.querySelector(arguments[0]);"
        "const b = a.querySelector(arguments[1]) || document.querySelector(arguments[1]);"
        "const p = a.getBoundingClientRect(), q = b.getBoundingClientRect();"
        "return [p.top + scrollY, q.bottom + scrollY];"
    )
    top, bottom = driver.execute_script(find, first, last)
    clip = {"x": 0, "y": top - 16, "width": WIDTH, "height": bottom - top + 32, "scale": SCALE}
    what = {"captureBeyondViewport": True, "clip": clip}
    found = driver.execute_cdp_cmd("Page.captureScreenshot", what)
    picture = Image.open(io.BytesIO(base64.b64decode(found["data"]))).convert("RGB")
    picture.quantize(160, dither=Image.Dither.NONE).save(path, optimize=True)
    print(path, picture.size, path.stat().st_size)


if __name__ == "__main__":
    main()
