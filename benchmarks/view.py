"""What a user of ``hyperdlw view`` waits for, and what the server holds, as one Markdown table.

    python benchmarks/view.py [--bands 224] [--side 512] [--repeats 20]

Makes a cube, starts the program and Chromium, and measures in the page: from opening the address
to the first painted picture, from a key to the painted band, from the pointer to the drawn
spectrum, from a click on Run to a job, and from a click on Cancel to its end, at several moments of
a run. Memory is that of the server at the first picture, and before the first job, with torch.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from selenium import webdriver

from hyperdlw import scenes

FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync "
    "--window-size=1280,720"
)
PROGRAM = "import sys; from hyperdlw.app.cli.main import run; sys.exit(run(sys.argv[1:]))"

# Milliseconds until dlwView changed, after an action.
BAND = """
const done = arguments[0], before = dlwView.shown, begin = performance.now();
document.body.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight', bubbles: true}));
const look = () => dlwView.shown > before
  ? requestAnimationFrame(() => done(performance.now() - begin)) : setTimeout(look, 0);
look();
"""
HOVER = """
const [x, y, done] = arguments, canvas = document.getElementById('image');
const old = dlwView.spectrum, begin = performance.now();
const box = canvas.getBoundingClientRect();
canvas.dispatchEvent(new PointerEvent('pointermove', {bubbles: true,
  clientX: box.left + x * box.width, clientY: box.top + y * box.height}));
const look = () => dlwView.spectrum && dlwView.spectrum !== old
  ? done(performance.now() - begin) : setTimeout(look, 0);
look();
"""


CLICK = """
const [words, done] = arguments, run = document.getElementById('run'), begin = performance.now();
run.click();
const look = () => run.textContent === words ? done(performance.now() - begin) : setTimeout(look, 0);
look();
"""

END = """
const done = arguments[0], begin = performance.now();
const look = async () => ((await (await fetch('api/status')).json()).job.ending
  ? setTimeout(look, 10) : done(performance.now() - begin));
look();
"""


def make_cube(bands: int, side: int) -> np.ndarray:
    """A scene made by code, repeated, with noise of 10 % of the range: network and model have to work."""
    rng = np.random.default_rng(0)
    tile = scenes.synthetic(bands, 64, 64, rng=rng).data.transpose(1, 2, 0)
    clean = np.tile(tile, (-(-side // 64), -(-side // 64), 1))[:side, :side]
    return clean + 0.1 * rng.standard_normal(clean.shape, np.float32)


def memory(process: int) -> tuple[float, float]:
    """Resident megabytes now and at most."""
    text = Path(f"/proc/{process}/status").read_text()
    now, most = (int(re.search(rf"{k}:\s+(\d+)", text)[1]) / 1024 for k in ("VmRSS", "VmHWM"))
    return now, most


def browser(folder: str) -> webdriver.Chrome:
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for flag in (*FLAGS.split(), f"--user-data-dir={folder}"):
        options.add_argument(flag)
    return webdriver.Chrome(
        options=options, service=webdriver.ChromeService("/usr/bin/chromedriver")
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bands", type=int, default=224)
    parser.add_argument("--side", type=int, default=512)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument(
        "--moments",
        type=float,
        nargs="*",
        default=[0.2, 1, 3, 6, 12, 25],
        help="of cancelling, in s",
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cube.npy"
        np.save(path, make_cube(given.bands, given.side))
        size = path.stat().st_size / 2**20
        driver = browser(f"{folder}/profile")
        driver.set_script_timeout(300)
        begin = time.perf_counter()
        program = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, "view", str(path), "--no-browser"],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ,
        )
        try:
            assert program.stdout is not None
            address = program.stdout.readline().split()[0]
            opened = time.perf_counter() - begin
            begin = time.perf_counter()
            driver.get(address)
            while not driver.execute_script("return (window.dlwView?.shown ?? 0) > 0"):
                time.sleep(0.005)
            paint = time.perf_counter() - begin
            first = memory(program.pid)[0]
            while not driver.execute_script("return !document.getElementById('run').disabled"):
                time.sleep(0.005)
            ready = time.perf_counter() - begin
            driver.execute_script(
                "document.body.dispatchEvent(new KeyboardEvent('keydown', {key: 'c', bubbles: true}))"
            )
            time.sleep(0.5)
            bands = [driver.execute_async_script(BAND) for _ in range(given.repeats)]
            places = np.random.default_rng(1).uniform(0.35, 0.65, (given.repeats, 2)).tolist()
            hovers = [driver.execute_async_script(HOVER, *place) for place in places]
            now, most = memory(program.pid)
            starts, cancels, ends = [], [], []
            for moment in given.moments:
                starts.append(driver.execute_async_script(CLICK, "Cancel"))
                time.sleep(moment)
                cancels.append(driver.execute_async_script(CLICK, "Run"))
                ends.append(cancels[-1] + driver.execute_async_script(END))
        finally:
            driver.quit()
            program.terminate()
            program.wait(30)
    print(f"{given.side} x {given.side} x {given.bands}, float32, {size:.0f} MB\n")
    print("| what | measured | bar |\n|---|---:|---:|")
    print(f"| reading the file until the address is printed | {opened:.1f} s | |")
    print(f"| address to first picture | {paint:.2f} s | 1 s |")
    print(f"| address to a button Run that works | {ready:.2f} s | at once |")
    for name, times, bar in (
        ("band change", bands, 50),
        ("hover to spectrum", hovers, 20),
        ("Run to a job", starts, 100),
        ("Cancel to a page that is ready", cancels, 1000),
        ("Cancel to the end of all work", ends, 1000),
    ):
        middle, worst = statistics.median(times), max(times)
        print(
            f"| {name}, median (worst of {len(times)}) | {middle:.0f} ({worst:.0f}) ms | {bar} ms |"
        )
    print(f"| memory of the server / cube | {first / size:.2f} ({first:.0f} MB) | 1.5 |")
    print(f"| the same, peak while reading | {most / size:.2f} | |")
    print(f"| the same, when torch is loaded | {now / size:.2f} ({now:.0f} MB) | |")


if __name__ == "__main__":
    main()
