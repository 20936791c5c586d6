"""The audit page: everything inside, every text escaped, the same facts in strips, opened in Chromium."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from hyperdlw import Cube, denoise, save_cube
from hyperdlw.pipeline.page_parts import Chart, Line, draw_chart
from hyperdlw.testbed import find_noise, make_textured_scene

CHROMIUM, DRIVER = Path("/usr/bin/chromium"), Path("/usr/bin/chromedriver")
NAME = "a <img src=x onerror=document.title='broken'> & b.hdr"
SECTIONS = (
    "Before and after",
    "Noise before and after",
    "Is it white?",
    "What was removed",
    "Spectra of three pixels",
    "What was trusted, set aside and invented",
    "Repeat it",
)


@pytest.fixture
def noisy(tmp_path: Path) -> Path:
    clean = make_textured_scene(8, 40, 44, rng=np.random.default_rng(1))
    y = find_noise("even15").apply(clean, np.random.default_rng(2)).y.astype(np.float32)
    y[2, 3:9, 4] = np.nan
    cube = Cube(y, np.isfinite(y), np.linspace(450, 900, 8))
    save_cube(cube, tmp_path / NAME)
    return tmp_path / NAME


class Tags(HTMLParser):
    """Tags that are opened and not closed, addresses, and text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.addresses: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "img", "br", "line", "path"):
            self.open.append(tag)
        self.addresses += [v for k, v in attrs if k in ("src", "href")]
        assert not any(k.startswith("on") for k, _ in attrs)
        assert tag != "script"

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in ("line", "path"):
            self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def read_page(path: Path) -> tuple[Tags, str]:
    page = Tags()
    page.feed(path.read_text(encoding="utf-8"))
    assert page.open == []
    return page, " ".join(page.text)


@pytest.mark.parametrize("strips", [False, True])
def test_page_holds_all_of_it(hyperdlw, tmp_path, noisy, strips):
    out, page = tmp_path / "out.hdr", tmp_path / "page.html"
    more = ["--workers", "1"] if strips else []
    ran = hyperdlw("denoise", noisy, out, "--audit", page, "--fill", *more)
    assert ran.code == 0, ran.err
    assert ran.out.splitlines()[-2].startswith("audit: ")
    tags, text = read_page(page)
    for title in SECTIONS:
        assert title in text
    assert tags.addresses
    assert all(a.startswith("data:image/png;base64,") for a in tags.addresses)
    assert NAME in text
    assert "<img src=x" not in page.read_text()
    assert "--fill" in text
    for file in (out.with_suffix(".img"), noisy.with_suffix(".img")):
        assert hashlib.sha256(file.read_bytes()).hexdigest() in text
    assert "Invented: not measured, filled 6" in re.sub(r"\s+", " ", text)
    assert "N+T+TS-remote" in text


def test_both_ways_draw_the_same_figures(hyperdlw, tmp_path, noisy):
    pages = []
    for k, more in enumerate(([], ["--workers", "1"])):
        page = tmp_path / f"{k}.html"
        hyperdlw("denoise", noisy, tmp_path / f"{k}.hdr", "--audit", page, *more)
        text = page.read_text()
        pages.append([float(v) for v in re.findall(r'd="M[\d.]+ ([\d.]+) L', text)])
    assert len(pages[0]) > 8
    np.testing.assert_allclose(*pages, atol=4)  # a fiftieth of the height of a chart


def test_page_of_two_files(hyperdlw, tmp_path, noisy):
    out = tmp_path / "out.hdr"
    assert hyperdlw("denoise", noisy, out).code == 0
    ran = hyperdlw("audit", noisy, out, "--html", tmp_path / "page.html")
    assert ran.code == 0, ran.err
    _, text = read_page(tmp_path / "page.html")
    assert "Is it white?" in text
    assert "SHA-256" in text
    ran = hyperdlw("audit", noisy, out, "--html", tmp_path / "page.html")
    assert ran.code == 2
    assert "overwrite" in ran.err


def test_page_of_a_result(tmp_path):
    y = make_textured_scene(5, 24, 24, rng=np.random.default_rng(3))
    y = y + 0.05 * np.random.default_rng(4).standard_normal(y.shape)
    denoise(y.astype(np.float32)).save_audit(tmp_path / "page.html", title="x<y")
    _, text = read_page(tmp_path / "page.html")
    assert "x<y" in text
    assert "was not asked for" in text


def test_chart_with_gaps_and_without_values():
    for y in (np.full(4, np.nan), np.array([1.0, np.nan, np.inf, 3.0])):
        for log in (False, True):
            chart = Chart(np.arange(4.0), [Line(y, "a<b", "c0")], "x", "y", log=log)
            text = draw_chart(chart)
            assert "nan" not in text
            assert "inf" not in text
            assert "a&lt;b" in text


@pytest.mark.skipif(
    not (CHROMIUM.exists() and DRIVER.exists()),
    reason="needs /usr/bin/chromium and /usr/bin/chromedriver (Debian: chromium-driver)",
)
@pytest.mark.xdist_group("browser")
def test_chromium_shows_and_prints_it(hyperdlw, tmp_path, noisy):
    webdriver = pytest.importorskip("selenium.webdriver", reason="pip install selenium")
    page = tmp_path / "page.html"
    assert hyperdlw("denoise", noisy, tmp_path / "out.hdr", "--audit", page).code == 0
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"):
        options.add_argument(flag)
    options.add_argument("--disable-background-networking")
    options.add_argument("--window-size=1280,900")
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(str(DRIVER)))
    try:
        driver.get(page.as_uri())
        assert driver.title == f"Audit: {NAME}"
        assert driver.get_log("browser") == []
        js = driver.execute_script
        titles = js("return [...document.querySelectorAll('h2')].map(e => e.textContent)")
        assert titles == list(SECTIONS)
        sizes = js("return [...document.images].map(e => [e.naturalWidth, e.clientWidth])")
        assert sizes
        assert all(a > 0 and b > 100 for a, b in sizes)
        assert js("return performance.getEntriesByType('resource').length") == len(
            js("return performance.getEntriesByType('resource').filter(e => /^data:/.test(e.name))")
        )
        # Nothing sticks out of the page, on a desk and on a phone.
        wide = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert js(wide) == 0
        driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": 420, "height": 800, "deviceScaleFactor": 1, "mobile": True},
        )
        assert js(wide) == 0
        driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        shades = []
        for scheme in ("light", "dark"):
            driver.execute_cdp_cmd(
                "Emulation.setEmulatedMedia",
                {"features": [{"name": "prefers-color-scheme", "value": scheme}]},
            )
            shades.append(js("return getComputedStyle(document.body).backgroundColor"))
        assert shades[0] != shades[1]
        printed = base64.b64decode(driver.print_page())
        assert printed.startswith(b"%PDF")
        assert 2 <= printed.count(b"/Type /Page\n") <= 9
    finally:
        driver.quit()
