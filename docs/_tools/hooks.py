"""What the site needs beyond MkDocs: formulas, results, the gallery, the list of commands.

Formulas are drawn by matplotlib as SVG paths in the colour of the text: no script, no font, no other
machine. ``$$ ... $$`` on lines of its own is a displayed formula, ``$ ... $`` one within a line.
"""

from __future__ import annotations

import html
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import gallery

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"(^```.*?^```\n?|`[^`\n]+`)", re.M | re.S)
SHOWN = re.compile(r"^\$\$\n?(.+?)\n?\$\$$", re.M | re.S)
INLINE = re.compile(r"(?<![\\$\w])\$(?=\S)((?:[^$\n]|\n(?!\n))+?)(?<=\S)\$(?![\w$])")
SHIM = "https://unpkg.com/iframe-worker/shim"
SIZE = 12.0
"""Points of a drawn formula; the page shows it in units of its own text size."""


made: dict[str, Any] = {}
"""Pages and pictures of the gallery, between the two events that need them."""


def on_config(config: Any) -> Any:
    """Results are whatever lies in docs/results; the gallery is run and written here."""
    pages, pictures, nav = gallery.make_gallery()
    made.update(pages=pages, pictures=pictures)
    for section in config.nav:
        if "Results" in section:
            found = sorted((Path(config.docs_dir) / "results").glob("*.md"), key=_order)
            section["Results"] = [{_title(p): f"results/{p.name}"} for p in found]
        if "Gallery" in section:
            section["Gallery"] = nav
    return config


def on_files(files: Any, config: Any) -> Any:
    """Pages and pictures that lie nowhere in docs/."""
    from mkdocs.structure.files import File

    for name, text in made["pages"].items():
        files.append(File.generated(config, name, content=text))
    for name, path in made["pictures"].items():
        files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


TITLES = {
    "field": "As a user runs it",
    "targets": "Models no network was trained with",
    "rivals": "Nine published methods",
    "simple": "Simple models, all weights",
    "networks": "Seven networks in their models",
    "directions": "Transfer in both directions",
    "pnp": "Plug and play",
    "dip": "Deep image prior",
    "colour": "Colour pictures",
    "classify": "Land cover after denoising",
    "remote-31-bands": "Airborne scenes, 31 bands",
    "remote-all-bands": "Airborne scenes, all bands",
    "robust": "Noise outside the training",
    "auto": "Automatic strength and advice",
    "cost": "Parameters and seconds",
    "constants": "Constants of the paper and ours",
    "paper": "The paper beside our tables",
    "stability": "Stability of training",
    "theory": "Theory: does U rank the networks?",
    "signal": "Is a signal still there?",
}
"""Results by the name of their file, in the order of the site; others follow with their heading."""


def _title(page: Path) -> str:
    first = page.read_text(encoding="utf-8").splitlines()[0]
    return TITLES.get(page.stem, first.lstrip("# ").split(":")[0])


def _order(page: Path) -> tuple[int, str]:
    names = list(TITLES)
    return (names.index(page.stem) if page.stem in names else len(names), page.stem)


def on_page_markdown(markdown: str, **kwargs: Any) -> str:
    """Draw the formulas; code is left alone."""
    if "{{ commands }}" in markdown:
        markdown = markdown.replace("{{ commands }}", commands())
    parts = FENCE.split(markdown)
    for i in range(0, len(parts), 2):
        text = SHOWN.sub(lambda m: f'<div class="formula">{svg(m[1])}</div>', parts[i])
        parts[i] = INLINE.sub(lambda m: svg(m[1]), text)
    return "".join(parts)


def on_post_page(output: str, page: Any, **kwargs: Any) -> str:
    """Search without a server: our own script in the place of one the theme would fetch."""
    return output.replace(SHIM, "../" * page.url.count("/") + "worker.js")


def on_post_template(output: str, **kwargs: Any) -> str:
    """The same for 404.html, whose addresses begin at the root."""
    return output.replace(SHIM, "/worker.js")


@cache
def svg(tex: str) -> str:
    """A formula as an SVG path that sits on the line and has the colour of the text."""
    from matplotlib import rc_context
    from matplotlib.font_manager import FontProperties
    from matplotlib.mathtext import MathTextParser
    from matplotlib.textpath import TextPath

    tex = " ".join(tex.split())
    font = FontProperties(size=SIZE, math_fontfamily="cm")
    with rc_context({"mathtext.fontset": "cm"}):
        box = MathTextParser("path").parse(f"${tex}$", dpi=72, prop=font)
        path = TextPath((0, 0), f"${tex}$", prop=font)
    width, height, depth = box.width, box.height + 1, box.depth + 0.5
    pieces = []
    for points, code in path.iter_segments(simplify=False):
        xy = " ".join(f"{v if i % 2 == 0 else -v:.2f}" for i, v in enumerate(points))
        pieces.append("Z" if code == path.CLOSEPOLY else "MLQC"[code - 1] + xy)
    return (
        f'<svg class="math" role="img" aria-label="{html.escape(tex)}" '
        f'viewBox="0 {depth - height:.2f} {width:.2f} {height:.2f}" '
        f'style="width:{width / SIZE:.3f}em;height:{height / SIZE:.3f}em;'
        f'vertical-align:{-depth / SIZE:.3f}em"><path d="{"".join(pieces)}"/></svg>'
    )


def commands() -> str:
    """Every command with its help, as the program prints it."""
    import typer
    from typer.testing import CliRunner

    from hyperdlw.app.cli.main import app

    runner, parts = CliRunner(), []
    for name in typer.main.get_command(app).commands:  # type: ignore[attr-defined]
        text = runner.invoke(app, [name, "--help"], env={"COLUMNS": "90"}).output
        text = text.replace("Usage: root ", "Usage: hyperdlw ").replace(
            "Usage: hyperdlw-root", "Usage: hyperdlw"
        )
        parts.append(f"## hyperdlw {name}\n\n```text\n{text.strip()}\n```\n")
    return "\n".join(parts)
