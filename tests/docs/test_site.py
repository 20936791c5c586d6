"""The site builds without a warning, needs no other machine, and has no dead ends.

MkDocs comes with ``pip install 'hyperdlw[docs]'``; ``make docs`` and continuous integration build it too.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs" / "_tools"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs")
    pytest.importorskip("mkdocstrings")
    pytest.importorskip("material")
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    folder = tmp_path_factory.mktemp("site")
    warnings: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            warnings.append(record.getMessage())

    handler = Keep(logging.WARNING)
    logging.getLogger("mkdocs").addHandler(handler)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("HYPERDLW_EXAMPLES", "clean_file")  # 'make docs' runs all of them
            build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder), strict=True))
    finally:
        logging.getLogger("mkdocs").removeHandler(handler)
    assert warnings == []
    return folder


class Requests(HTMLParser):
    """What a browser would fetch by itself for a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        name = "href" if tag == "link" else "src"
        if tag in ("link", "script", "img", "iframe", "source") and given.get(name):
            self.found.append(str(given[name]))


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 15
    for page in pages:
        parser = Requests()
        parser.feed(page.read_text(encoding="utf-8"))
        assert parser.found
        outside = [u for u in parser.found if re.match(r"(?:https?:)?//", u)]
        assert outside == [], page.name
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\(\s*[\"']?(?:https?:)?//", sheet.read_text(encoding="utf-8"))


def test_formulas_and_interface_are_there(site: Path) -> None:
    models = (site / "models.html").read_text(encoding="utf-8")
    assert models.count('class="math"') > 40
    assert "$$" not in models
    everyday = (site / "api/everyday.html").read_text(encoding="utf-8")
    assert 'id="hyperdlw.denoise"' in everyday
    assert "--strength" in (site / "commands.html").read_text(encoding="utf-8")
    assert not list(site.rglob("*.py"))


def test_the_gallery_shows_an_example(site: Path) -> None:
    overview = (site / "gallery/index.html").read_text(encoding="utf-8")
    assert '<a href="clean_file.html"><img src="clean_file.png" alt="" loading="lazy">' in overview
    page = (site / "gallery/clean_file.html").read_text(encoding="utf-8")
    assert "0 voxels clipped" in page
    assert (site / "gallery/clean_file.png").stat().st_size > 5000


def test_search_works_from_the_disk(site: Path) -> None:
    """No server, no other machine: the page is read as a file, and search finds something."""
    webdriver = pytest.importorskip("selenium.webdriver")
    if not Path("/usr/bin/chromedriver").exists():
        pytest.skip("needs /usr/bin/chromedriver (Debian: chromium-driver)")
    options = webdriver.ChromeOptions()
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL"})
    service = webdriver.ChromeService("/usr/bin/chromedriver")
    with webdriver.Chrome(options=options, service=service) as browser:
        browser.get((site / "guide" / "clean.html").as_uri())
        box = browser.find_element("css selector", "input.md-search__input")
        browser.execute_script("arguments[0].focus()", box)
        box.send_keys("strength")
        answer = ""
        for _ in range(200):
            answer = browser.find_element("css selector", ".md-search-result__meta").text
            if "matching documents" in answer:
                break
            time.sleep(0.1)
        assert "matching documents" in answer
        events = [json.loads(e["message"])["message"] for e in browser.get_log("performance")]
    sent = [e["params"] for e in events if e["method"] == "Network.requestWillBeSent"]
    asked = {params["request"]["url"] for params in sent}
    assert any(url.endswith("worker.js") for url in asked)
    assert all(url.startswith(("file:", "data:", "about:")) for url in asked)


def test_formulas_leave_code_and_money_alone() -> None:
    pytest.importorskip("matplotlib")
    from hooks import on_page_markdown

    text = "5$ and 6$, `$x$`\n\n```sh\necho $HOME $PATH\n```\n"
    assert on_page_markdown(text) == text
    assert on_page_markdown("a $x^2$ b").startswith("a <svg")
    assert on_page_markdown("$$\nx\n$$").startswith('<div class="formula"><svg')


def test_every_model_has_a_section() -> None:
    from hyperdlw.models import list_models

    text = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    for name in list_models():
        assert f"`{name}`" in text, name
