"""The gallery: every example is run when the site is built, and shown with its picture and its output.

A run is kept in ``build/gallery`` with a hash of the script and of the package, so that only what changed
is run again. ``HYPERDLW_EXAMPLES=gaps,stripes`` builds a gallery of these alone.

    python docs/_tools/gallery.py     run what is not there, and say how long each took
"""

from __future__ import annotations

import ast
import hashlib
import html
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
HELD = ROOT / "build" / "gallery"
LONGEST = 600.0
"""Seconds before an example counts as hanging, on a machine that has other things to do."""
SECTIONS = {
    "Damage, and what comes out": (
        "stripes",
        "dead_elements",
        "gaps",
        "bright_pixels",
        "wild_voxel",
        "clean_data",
    ),
    "Instruments": ("emit", "tanager", "aviris_ng", "pushbroom", "hypso_columns", "many_bands"),
    "Files": ("clean_file", "many_files", "in_strips", "dask_cluster", "with_xarray", "colour"),
    "Choose and check": (
        "advice",
        "choose_strength",
        "compare_models",
        "protect_signal",
        "uncertainty",
        "weights_and_report",
    ),
    "Make it your own": ("own_mask", "own_noise", "own_model", "own_sensor", "train_tiny"),
}
"""Examples by the name of their file, in the order of the page."""
HEAD = """# Gallery

Short programs, each with what it prints and draws. They are run when this site is built, and tested;
you find them in `examples/`. Most scenes are made by code, so the truth is known and the error is
measured. Where one band is shown, it is the one that gains most, and a curve has all of them.
"""


@dataclass(frozen=True)
class Example:
    """A script, and what its first lines say about it."""

    name: str
    title: str
    sentence: str
    more: str
    code: str


@dataclass(frozen=True)
class Shown:
    """What a script printed and drew."""

    output: str
    picture: Path
    seconds: float


def read_example(name: str) -> Example:
    """The docstring begins with ``Title: sentence.``; what follows the command is shown as well.

    >>> read_example("gaps").title
    'Gaps'
    """
    text = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    about = ast.get_docstring(ast.parse(text)) or ""
    found = re.match(r"(.+?)(?:: |(?<=\?) )(.+)", about)
    if found is None:
        raise ValueError(f"examples/{name}.py does not begin with 'Title: sentence.'")
    sentence = found[2][0].upper() + found[2][1:]
    more = "\n\n".join(about.split("\n\n")[2:]).replace("``", "`")
    code = text.split('"""', 2)[2].strip() + "\n"
    return Example(name, found[1], sentence, more, code)


def list_examples() -> dict[str, list[str]]:
    """What the gallery holds, by section."""
    asked = {name for name in os.environ.get("HYPERDLW_EXAMPLES", "").split(",") if name}
    kept = {
        title: [name for name in names if not asked or name in asked]
        for title, names in SECTIONS.items()
    }
    return {title: names for title, names in kept.items() if names}


@cache
def hash_package() -> bytes:
    """A hash of everything an example uses: the package with its networks, and how examples draw."""
    found = hashlib.sha256()
    files = [p for p in sorted((ROOT / "src" / "hyperdlw").rglob("*")) if p.is_file()]
    for path in [*files, EXAMPLES / "pictures.py"]:
        if path.suffix != ".pyc":
            found.update(path.read_bytes())
    return found.digest()


def run_example(name: str) -> Shown:
    """Run a script in a folder of its own, unless it was run before with the same sources."""
    script = EXAMPLES / f"{name}.py"
    key = hashlib.sha256(hash_package() + script.read_bytes()).hexdigest()[:16]
    held = HELD / f"{name}-{key}"
    if not held.exists():
        _run_anew(script, held)
    return Shown(
        (held / "output.txt").read_text(encoding="utf-8"),
        held / f"{name}.png",
        float((held / "seconds.txt").read_text(encoding="utf-8")),
    )


def _run_anew(script: Path, held: Path) -> None:
    HELD.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=HELD, prefix=".run-") as made:
        folder = Path(made)
        begin = time.monotonic()
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "NO_COLOR": "1"}
        path = f"{ROOT / 'src'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
        done = subprocess.run(
            [sys.executable, str(script)],
            cwd=folder,
            env={**environment, "PYTHONPATH": path.rstrip(os.pathsep)},
            capture_output=True,
            text=True,
            timeout=LONGEST,
        )
        if done.returncode or not (folder / f"{script.stem}.png").exists():
            raise RuntimeError(f"examples/{script.name} failed:\n{done.stderr[-2000:]}")
        kept = folder / "kept"
        kept.mkdir()
        shutil.move(folder / f"{script.stem}.png", kept)
        said = [x for x in done.stdout.splitlines() if not x.startswith("picture: ")]
        (kept / "output.txt").write_text("\n".join(said).strip() + "\n", encoding="utf-8")
        seconds = time.monotonic() - begin
        (kept / "seconds.txt").write_text(f"{seconds:.1f}\n", encoding="utf-8")
        for old in HELD.glob(f"{script.stem}-*"):
            shutil.rmtree(old)
        kept.rename(held)


def run_examples(names: Iterable[str], workers: int = 2) -> Iterator[tuple[str, Shown]]:
    """Run scripts two at a time, in the order of the page."""
    listed = list(names)
    with ThreadPoolExecutor(workers) as pool:
        yield from zip(listed, pool.map(run_example, listed), strict=True)


def write_example(example: Example, shown: Shown) -> str:
    """The page of one example."""
    parts = [f"# {example.title}", example.sentence]
    parts.append(f"![{example.title}]({example.name}.png){{ .shown }}")
    if example.more:
        parts.append(example.more)
    parts.append(f"It prints:\n\n```text\n{shown.output}```")
    parts.append(f"`examples/{example.name}.py`:\n\n```python\n{example.code}```")
    parts.append("[All examples](index.md)")
    return "\n\n".join(parts) + "\n"


def write_overview(sections: dict[str, list[Example]]) -> str:
    """The page with a small picture of each."""
    parts = [HEAD]
    for title, examples in sections.items():
        parts.append(f"## {title}\n")
        parts.append('<div class="gallery">')
        for e in examples:
            words = f"<b>{html.escape(e.title)}</b><span>{html.escape(e.sentence)}</span>"
            thumb = f'<img src="{e.name}.png" alt="" loading="lazy">'
            parts.append(f'<a href="{e.name}.html">{thumb}{words}</a>')
        parts.append("</div>\n")
    return "\n".join(parts)


def make_gallery() -> tuple[dict[str, str], dict[str, Path], list[dict[str, object]]]:
    """Pages and pictures by their address in the site, and the part of the navigation."""
    sections = {title: list(map(read_example, x)) for title, x in list_examples().items()}
    about = {e.name: e for examples in sections.values() for e in examples}
    shown = dict(run_examples(about))
    pages = {f"gallery/{name}.md": write_example(e, shown[name]) for name, e in about.items()}
    pages["gallery/index.md"] = write_overview(sections)
    pictures = {f"gallery/{name}.png": x.picture for name, x in shown.items()}
    nav: list[dict[str, object]] = [{"Overview": "gallery/index.md"}]
    for title, examples in sections.items():
        nav.append({title: [{e.title: f"gallery/{e.name}.md"} for e in examples]})
    return pages, pictures, nav


if __name__ == "__main__":
    for name, run in run_examples(name for names in list_examples().values() for name in names):
        print(f"{name:20s} {run.seconds:6.1f} s", flush=True)
