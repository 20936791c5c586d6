"""The page in a real browser: headless Chromium, on a server in this process."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest

from hyperdlw import open_cube

selenium = pytest.importorskip("selenium", reason="pip install selenium")
from selenium import webdriver  # noqa: E402
from selenium.webdriver import ActionChains, Keys  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402

CHROMIUM, DRIVER = Path("/usr/bin/chromium"), Path("/usr/bin/chromedriver")
PICTURES = Path(__file__).parents[2] / "out" / "view"
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1280,720",
)

pytestmark = [
    pytest.mark.skipif(
        not (CHROMIUM.exists() and DRIVER.exists()),
        reason="needs /usr/bin/chromium and /usr/bin/chromedriver (Debian: chromium-driver)",
    ),
    # One browser for all: the tests stay on one worker of pytest-xdist where groups are in use.
    pytest.mark.xdist_group("browser"),
]


class Page:
    """The browser with a few words for what the tests do."""

    def __init__(self, driver: webdriver.Chrome, downloads: Path) -> None:
        self.driver = driver
        self.downloads = downloads

    def __getitem__(self, name: str):
        return self.driver.find_element(By.ID, name)

    def js(self, code: str, *given):
        return self.driver.execute_script(code, *given)

    def until(self, condition, seconds: float = 60.0):
        end = time.monotonic() + seconds
        while not (found := condition()):
            assert time.monotonic() < end, f"waited in vain; the page says: {self['job'].text}"
            time.sleep(0.03)
        return found

    def open(self, address: str) -> None:
        self.driver.get(address)
        self.until(lambda: self.js("return (window.dlwView?.shown ?? 0) > 0"))
        self.until(lambda: self["run"].is_enabled())

    def size(self, width: int, height: int) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def press(self, *keys: str) -> None:
        ActionChains(self.driver).send_keys(*keys).perform()

    def shown(self, act) -> None:
        """Do something and wait until the picture was painted again."""
        before = self.js("return dlwView.shown")
        act()
        self.until(lambda: self.js("return dlwView.shown") > before)

    def hover(self, row: int, col: int, click: bool = False) -> None:
        """Move the pointer to the middle of a pixel of a 20 x 24 image that is fitted."""
        image = self["image"]
        zoom = min((image.size["width"] - 16) / 24, (image.size["height"] - 16) / 20)
        chain = ActionChains(self.driver).move_to_element_with_offset(
            image, round((col + 0.5 - 12) * zoom), round((row + 0.5 - 10) * zoom)
        )
        (chain.click() if click else chain).perform()

    def choose(self, name: str, value: str) -> None:
        self.js(
            "const e = document.getElementById(arguments[0]); e.value = arguments[1];"
            "e.dispatchEvent(new Event('input', {bubbles: true}));"
            "e.dispatchEvent(new Event('change', {bubbles: true}));",
            name,
            value,
        )

    def run(self, model: str = "tv", weights: str = "precision") -> None:
        version = self.js("return dlwView.version")
        self.choose("model", model)
        self.choose("weights", weights)
        self["run"].click()
        self.until(lambda: self.js("return dlwView.version") > version)
        self.until(lambda: self["run"].text == "Run")

    def colours(self, x: float = 0.5, y: float = 0.5) -> list[int]:
        """The pixel of the big canvas at a relative place."""
        return self.js(
            "const c = document.getElementById('image');"
            "return [...c.getContext('2d').getImageData("
            "Math.floor(arguments[0] * c.width), Math.floor(arguments[1] * c.height), 1, 1).data]",
            x,
            y,
        )

    def drag(self, right: int, down: int) -> None:
        """Drag on the image, from left of its middle so that both panes have room."""
        chain = ActionChains(self.driver).move_to_element_with_offset(self["image"], -150, -20)
        chain.click_and_hold().move_by_offset(right, down).release().perform()

    def picture(self, name: str) -> None:
        PICTURES.mkdir(parents=True, exist_ok=True)
        self.driver.save_screenshot(str(PICTURES / f"{name}.png"))

    def complaints(self) -> list[str]:
        return [e["message"] for e in self.driver.get_log("browser") if e["level"] == "SEVERE"]


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    downloads = tmp_path_factory.mktemp("downloads")
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(str(DRIVER)))
    yield Page(driver, downloads)
    driver.quit()


@pytest.fixture
def page(chromium: Page, address: str) -> Iterator[Page]:
    for log in ("performance", "browser"):
        chromium.driver.get_log(log)
    for left in chromium.downloads.iterdir():
        left.unlink()
    chromium.size(1280, 720)
    chromium.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    chromium.open(address)
    yield chromium
    assert chromium.complaints() == []
    chromium.driver.get("about:blank")


def test_first_sight(page):
    assert page["name"].text == "scene one.npz"
    assert "6 bands · 20 × 24 pixels · 400 to 700 nm" in page["about"].text
    assert page.js("return document.documentElement.scrollWidth <= innerWidth")
    assert page.js("return document.documentElement.scrollHeight <= innerHeight")
    page.picture("noisy-light-1280")


def test_every_control_has_a_name(page):
    nameless = page.js(
        "return [...document.querySelectorAll('button, input, select, canvas, a')].filter((e) =>"
        "!(e.textContent.trim() || e.ariaLabel || e.labels?.length)).map((e) => e.outerHTML)"
    )
    assert nameless == []


def test_band_slider(page, session):
    page.shown(lambda: page.press("c"))
    for band in (0, 5):
        page.shown(lambda band=band: page.choose("band", str(band)))
        assert page["band-name"].text == f"{band} · {400 + 60 * band} nm"
        page.hover(6, 6)
        page.until(lambda: page.driver.find_elements(By.CSS_SELECTOR, "[data-value=noisy]"))
        value = page.driver.find_element(By.CSS_SELECTOR, "[data-value=noisy]").text
        assert float(value) == pytest.approx(float(session.cube.data[band, 6, 6]), rel=1e-5)


def test_keys(page):
    page.shown(lambda: page.press(Keys.HOME))
    page.shown(lambda: page.press(Keys.ARROW_RIGHT))
    assert page.js("return dlwView.band") == 1
    page.shown(lambda: page.press(Keys.END))
    page.press(Keys.ARROW_RIGHT)
    assert page.js("return dlwView.band") == 5
    page.press("?")
    assert page["keys"].is_displayed()
    page.picture("help")
    page.press(Keys.ESCAPE)
    assert not page["keys"].is_displayed()
    page.press("s")
    assert page.js("return dlwView.layer") == "noisy", "there is nothing to swipe yet"


@pytest.mark.parametrize(("row", "col"), [(0, 0), (7, 11), (19, 23), (3, 4)])
def test_hover_reads_the_cube(page, session, row, col):
    page.hover(row, col)
    found = page.until(lambda: page.js("return dlwView.spectrum"))
    assert (found["row"], found["col"]) == (row, col)
    ok = session.cube.valid[:, row, col]
    expected = [
        v if good else None for v, good in zip(session.cube.data[:, row, col], ok, strict=True)
    ]
    assert found["noisy"] == expected
    assert f"Row {row}, column {col}" in page["readout"].text


def test_the_picture_is_the_band(page, session):
    """Grey values follow the stretch: 2 % and 98 % of the band are black and white."""
    page.shown(lambda: page.press(Keys.HOME))
    band = session.cube.data[0]
    low, high = np.quantile(band, [0.02, 0.98])
    image = page["image"]
    zoom = min((image.size["width"] - 16) / 24, (image.size["height"] - 16) / 20)
    for row, col in ((2, 3), (10, 12), (17, 20)):
        x = 0.5 + (col + 0.5 - 12) * zoom / image.size["width"]
        y = 0.5 + (row + 0.5 - 10) * zoom / image.size["height"]
        red, green, blue, _ = page.colours(x, y)
        expected = np.clip((band[row, col] - low) / (high - low), 0, 1) * 255
        assert red == green == blue
        assert abs(red - expected) < 4


def test_a_click_in_the_noise_goes_to_the_band(page, session):
    assert page.js("return dlwView.band") == session.find_noisiest()
    canvas = page["noise"]
    right = ActionChains(page.driver).move_to_element_with_offset(
        canvas, canvas.size["width"] // 2 - 16, 0
    )
    page.shown(lambda: right.click().perform())
    assert page.js("return dlwView.band") == session.cube.bands - 1
    page.shown(lambda: page.press("n"))
    assert page.js("return dlwView.band") == session.find_noisiest()


def test_zoom_and_pan(page):
    before = page.colours(0.02, 0.5)
    assert before[3] == 0, "beside the fitted image"
    page["zoom-in"].click()
    page["zoom-in"].click()
    page.until(lambda: page.colours(0.02, 0.5)[3] == 255)
    page["fit"].click()
    page.until(lambda: page.colours(0.02, 0.5)[3] == 0)
    # Dragging moves the image and pins nothing.
    ActionChains(page.driver).drag_and_drop_by_offset(page["image"], -250, 0).perform()
    page.until(lambda: page.colours(0.02, 0.5)[3] == 255)
    assert page.js("return dlwView.pins.length") == 0


def test_run_swipe_layers_and_pins(page, session):
    page.hover(4, 5, click=True)
    page.until(lambda: page.js("return dlwView.pins.length") == 1)
    page.run()
    assert session.result is not None
    assert "tv, precision, strength 1" in page["job"].text
    # The first result is shown as a swipe.
    assert page.js("return dlwView.layer") == "swipe"
    assert page["divider"].is_displayed()
    pin = page.until(lambda: page.js("return dlwView.pins[0]?.restored && dlwView.pins[0]"))
    assert pin["restored"] == session.result.cube.data[:, 4, 5].tolist()
    assert pin["weights"] == session.result.weights[:, 4, 5].tolist()
    page.hover(8, 9)
    page.until(lambda: page.js("return dlwView.spectrum?.restored"))
    page.picture("swipe-light-1280")
    # The line moves with the pointer and with the keys.
    left = page["divider"].location["x"]
    ActionChains(page.driver).drag_and_drop_by_offset(page["divider"], 120, 0).perform()
    assert page["divider"].location["x"] == pytest.approx(left + 120, abs=3)
    page.press("[")
    assert page["divider"].location["x"] < left + 119
    for key, layer in (("d", "difference"), ("w", "weights"), ("1", "noisy"), ("2", "restored")):
        page.shown(lambda key=key: page.press(key))
        assert page.js("return dlwView.layer") == layer
        page.picture(f"{layer}-light-1280")
        assert ("median" in page["histogram-facts"].text) == (layer == "weights")
    page["unpin"].click()
    assert page.js("return dlwView.pins.length") == 0


def test_side_by_side_has_one_zoom(page, session):
    """Both panes show the same pixel at the same place, and move together."""
    page.run()
    page.shown(lambda: page.press("b"))
    for act in (lambda: None, lambda: page["zoom-in"].click(), lambda: page.drag(-60, 20)):
        act()
        time.sleep(0.2)
        same = page.js(
            "const c = document.getElementById('image').getContext('2d'); const {width, height} = c.canvas;"
            "const sides = [0, width / 2].map((x) => [...c.getImageData(x, 0, width / 2, height).data]);"
            "const edge = (d) => d.filter((v, i) => i % 4 === 3).join('');"
            "return [edge(sides[0]) === edge(sides[1]), sides[0].join() === sides[1].join()]"
        )
        assert same == [True, False], "the same place, other values"
    page.picture("beside-light-1280")


def test_region_spectrum(page, session):
    page["region"].click()
    page.drag(60, 40)
    found = page.until(lambda: page.js("return dlwView.regions[0]"))
    rows, cols = slice(found["top"], found["bottom"]), slice(found["left"], found["right"])
    part = np.where(session.cube.valid, session.cube.data, np.nan)[:, rows, cols]
    np.testing.assert_allclose(found["noisy"], np.nanmean(part, axis=(1, 2)), rtol=1e-5)
    assert found["pixels"] == part[0].size > 1
    assert page["region"].get_attribute("aria-pressed") == "false"
    assert page.js("return dlwView.pins.length") == 0
    page.run()
    page.until(lambda: page.js("return dlwView.regions[0].restored_deviation"))
    assert "mean ± deviation" in page["legend"].text
    page.picture("region-light-1280")
    page["unpin"].click()
    assert page.js("return dlwView.regions.length") == 0


def test_the_histogram_stretches(page):
    page.shown(lambda: page.press(Keys.HOME))
    canvas = page["histogram"]
    before = page.colours()
    left = ActionChains(page.driver).move_to_element_with_offset(
        canvas, -canvas.size["width"] // 2 + 20, 0
    )
    page.shown(lambda: left.click_and_hold().move_by_offset(80, 0).release().perform())
    low, high = page.until(lambda: page.js("return dlwView.fixed.get(0)"))
    assert low < high
    assert page.colours() != before
    assert page["restretch"].is_displayed()
    page.shown(lambda: page["restretch"].click())
    assert page.colours() == before


def test_presets_fill_in_the_options(page):
    words = [o.text for o in page["preset"].find_elements(By.TAG_NAME, "option")]
    assert words[0] == page["preset"].find_element(By.CSS_SELECTOR, ":checked").text
    page.choose("preset", str(next(i for i, w in enumerate(words) if "paper" in w)))
    assert page["model"].get_attribute("value") == "lrtfdfr"
    assert page["paper"].get_property("checked")
    assert not page["model"].is_displayed(), "behind a fold"
    page["expert"].find_element(By.TAG_NAME, "summary").click()
    assert page["model"].is_displayed()
    page.picture("expert-light-1280")
    page.choose("model", "tv")
    assert page["preset"].get_attribute("value") == "own"
    page["advise"].click()
    page.until(lambda: "strength:" in page["advice"].text)
    page.picture("advice-light-1280")


def test_quality_in_words(page, session):
    words = [o.text.split(":")[0] for o in page["quality"].find_elements(By.TAG_NAME, "option")]
    assert words == ["Fast", "Normal", "Best"]
    assert page["quality"].get_attribute("value") == "normal"
    page.choose("quality", "fast")
    page["run"].click()
    page.until(lambda: session.log)
    assert session.log[0].progress == "done"
    assert session.result.report.quality == "fast"
    page.until(lambda: ", fast" in page["log"].text)
    page.choose("model", "tv")
    assert not page["quality"].is_enabled()
    page.run()
    assert session.result.report.model == "tv"
    page.picture("quality-light-1280")


def test_what_is_marked_is_protected(page, session):
    page["expert"].find_element(By.TAG_NAME, "summary").click()
    page["marked"].click()
    page["run"].click()
    page.until(lambda: "Nothing is marked" in page["notice"].text)
    page.hover(4, 5, click=True)
    page.until(lambda: page.js("return dlwView.pins.length") == 1)
    page.run()
    assert session.log[-1].request.protect == ("4:5,5:6",)
    pin = page.until(lambda: page.js("return dlwView.pins[0]?.restored && dlwView.pins[0]"))
    assert pin["restored"] == pin["noisy"]
    page.picture("protect-light-1280")


def test_queue_undo_and_log(page, session, gate):
    page.choose("model", "tv")
    page.choose("weights", "precision")
    page["run"].click()
    assert gate.reached.wait(60)
    page.choose("strength-number", "2")
    page.until(lambda: page["queue"].is_displayed())
    page["queue"].click()
    page.until(lambda: "waiting" in page["log"].text)
    page.picture("queue-light-1280")
    gate.opened.set()
    page.until(lambda: page.js("return dlwView.version") and len(session.log) == 2)
    page.until(lambda: "strength 2" in page["job"].text)
    assert len(page["log"].find_elements(By.TAG_NAME, "li")) == 2
    page.press("u")
    page.until(lambda: session.shown == 1)
    page.until(lambda: session.result.report.strength == 1.0)
    page["export"].click()
    page["get-command"].click()
    got = page.downloads / "scene_one-commands.txt"
    page.until(got.exists)
    assert "--strength 2.0" in got.read_text()


def test_usable_at_700_pixels(page):
    page.size(700, 900)
    page.run()
    page.press("b")
    time.sleep(0.3)
    assert page.js("return document.documentElement.scrollWidth <= innerWidth")
    assert page["image"].size["height"] > 300
    page.picture("beside-light-700")
    hidden = page.js(
        "return [...document.querySelectorAll('main button')].filter((b) => b.offsetParent"
        "&& b.getBoundingClientRect().right > innerWidth).map((b) => b.textContent)"
    )
    assert hidden == []
    page.js("scrollTo(0, 1e6)")
    page.picture("below-light-700")


def test_strength_slider_solves_again(page, session):
    page.run()
    assert session.result.report.strength == 1.0
    page.choose("strength", "0.5")
    page.until(lambda: session.result.report.strength == 3.2)
    page.until(lambda: "strength 3.2" in page["job"].text)


def test_cancel(page, session, gate):
    page.choose("model", "tv")
    page["run"].click()
    assert gate.reached.wait(60)
    page.until(lambda: page["run"].text == "Cancel")
    page.until(lambda: "Solving" in page["job"].text)
    page["run"].click()
    page.until(lambda: page["job"].text == "Cancelled")
    page.until(lambda: session.job.progress == "cancelled")
    assert page["run"].text == "Run"
    assert session.result is None


def test_closing_the_tab_during_a_job(page, session, gate, monkeypatch, address):
    from hyperdlw.app.page import server

    monkeypatch.setattr(server, "GRACE", 0.1)
    page["run"].click()
    assert gate.reached.wait(60)
    page.driver.get("about:blank")
    page_end = time.monotonic() + 60
    while session.job.running:
        assert time.monotonic() < page_end
        time.sleep(0.02)
    assert session.job.progress == "cancelled"
    page.open(address)
    page.until(lambda: page["job"].text == "Cancelled")


def test_export_reads_back(page, session, tmp_path):
    page.run()
    for kind, values in (
        ("restored", session.result.cube.data),
        ("weights", session.result.weights),
    ):
        page["export"].click()
        page[f"get-{kind}"].click()
        got = page.downloads / f"scene_one-{kind}.npz"
        page.until(got.exists)
        back = open_cube(got)
        ok = session.cube.valid
        np.testing.assert_array_equal(back.data[ok], values[ok])
    page["export"].click()
    page.picture("export")
    for kind, name in (("picture", "picture.png"), ("report", "report.html")):
        if not page["exports"].is_displayed():
            page["export"].click()
        page[f"get-{kind}"].click()
        got = page.downloads / f"scene_one-{name}"
        page.until(got.exists)
        PICTURES.mkdir(parents=True, exist_ok=True)
        shutil.copy(got, PICTURES / name)


def test_no_request_leaves_the_machine(page, address):
    page.run()
    page.press("w")
    page.hover(3, 3)
    page.until(lambda: page.js("return dlwView.spectrum?.restored"))
    own = urlsplit(address).netloc
    entries = page.js("return performance.getEntriesByType('resource').map((e) => e.name)")
    assert any(e.endswith("static/main.js") for e in entries)
    assert {urlsplit(e).netloc for e in entries} == {own}
    asked = []
    for entry in page.driver.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            asked.append(message["params"]["request"]["url"])
    asked = [u for u in asked if urlsplit(u).scheme not in ("data", "blob", "about")]
    assert any("api/band/weights" in u for u in asked)
    assert {urlsplit(u).netloc for u in asked} == {own}


@pytest.mark.parametrize("width", [1280, 1600])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_themes_and_sizes(page, address, theme, width):
    page.size(width, width * 9 // 16)
    feature = {"name": "prefers-color-scheme", "value": theme}
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    page.until(lambda: page.js("return document.documentElement.dataset.theme") == theme)
    page.run()
    page.hover(8, 9)
    page.until(lambda: page.js("return dlwView.spectrum?.restored"))
    assert page.js("return document.documentElement.scrollHeight <= innerHeight")
    page.picture(f"swipe-{theme}-{width}")
    page.press("t")
    assert page.js("return document.documentElement.dataset.theme") != theme
