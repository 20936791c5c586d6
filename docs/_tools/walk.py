"""Draw the pictures of the walk through a real scene: ``python docs/_tools/walk.py [--docs docs]``.

Runs ``hyperdlw demo --real``, and ``hyperdlw view`` on its cube in a headless Chromium, as a user would.
Needs tensorly, selenium, /usr/bin/chromium and /usr/bin/chromedriver.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from PIL import Image
from selenium import webdriver
from selenium.webdriver.common.by import By

SIZE = (1200, 760)
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--force-device-scale-factor=1")
PROGRAM = [sys.executable, "-m", "hyperdlw"]


def wait_for(condition: Callable[[], object], seconds: float = 600.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("the page did not come to its end")
        time.sleep(0.1)


def keep(picture: Path, to: Path) -> None:
    """256 colours, rare ones too: a third of the size, and the eye sees no step in these pictures."""
    image = Image.open(picture).convert("RGB")
    method = Image.Quantize.FASTOCTREE
    image.quantize(256, method, dither=Image.Dither.NONE).save(to, optimize=True)
    print(f"{to}: {to.stat().st_size // 1000} kB")


def photograph(address: str, place: Path, figures: Path) -> None:
    """The page as it opens, and after a run: swipe, side by side, weights."""
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for flag in (*FLAGS, f"--window-size={SIZE[0]},{SIZE[1]}"):
        options.add_argument(flag)
    service = webdriver.ChromeService("/usr/bin/chromedriver")
    with webdriver.Chrome(options=options, service=service) as browser:

        def press(key: str) -> None:
            browser.execute_script(
                "const how = {key: arguments[0], bubbles: true};"
                "document.body.dispatchEvent(new KeyboardEvent('keydown', how))",
                key,
            )

        def shoot(name: str) -> None:
            time.sleep(1)
            browser.save_screenshot(str(place / "shot.png"))
            keep(place / "shot.png", figures / f"page-{name}.png")

        metrics = dict(zip(("width", "height"), SIZE, strict=True))
        more = {"deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {**metrics, **more})
        browser.get(address)
        wait_for(lambda: browser.execute_script("return (window.dlwView?.shown ?? 0) > 0"))
        run = browser.find_element(By.ID, "run")
        wait_for(run.is_enabled)
        shoot("open")
        run.click()
        wait_for(lambda: run.text == "Cancel")
        wait_for(lambda: run.text == "Run")
        image = browser.find_element(By.ID, "image")
        chain = webdriver.ActionChains(browser)
        chain.move_to_element_with_offset(image, -120, 60).click().perform()
        press("End")  # a band in which the eye finds the fields again
        shoot("swipe")
        press("b")
        shoot("beside")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--docs", type=Path, default=Path(__file__).parents[1])
    figures = parser.parse_args().docs / "figures"
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        subprocess.run([*PROGRAM, "demo", "--real", "--out", folder], check=True)
        keep(place / "real.png", figures / "real.png")
        view = [*PROGRAM, "view", str(place / "pines.hdr"), "--no-browser"]
        with subprocess.Popen(view, stdout=subprocess.PIPE, text=True) as program:
            try:
                assert program.stdout is not None
                photograph(program.stdout.readline().split()[0], place, figures)
            finally:
                program.terminate()


if __name__ == "__main__":
    main()
