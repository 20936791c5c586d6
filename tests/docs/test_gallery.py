"""The gallery holds every example, runs each of them once, and does not hide a failure."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs" / "_tools"))

import gallery  # noqa: E402

SCRIPT = '''"""Counting: how often this was run.

python examples/count.py
"""

from pathlib import Path

runs = Path({place!r}, "runs")
runs.write_text(runs.read_text() + "x" if runs.exists() else "x")
Path("count.png").write_bytes(b"a picture")
print("runs", len(runs.read_text()))
print("picture: count.png")
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Examples and their results in a place of their own; the package does not count."""
    monkeypatch.setattr(gallery, "EXAMPLES", tmp_path)
    monkeypatch.setattr(gallery, "HELD", tmp_path / "held")
    monkeypatch.setattr(gallery, "hash_package", lambda: b"")
    (tmp_path / "count.py").write_text(SCRIPT.format(place=str(tmp_path)))
    return tmp_path


def test_every_example_is_shown_once_and_has_a_title() -> None:
    listed = [name for names in gallery.SECTIONS.values() for name in names]
    there = {path.stem for path in (ROOT / "examples").glob("*.py")} - {"pictures"}
    assert sorted(listed) == sorted(there)
    assert len(listed) >= 15
    titles = [gallery.read_example(name).title for name in listed]
    assert len(set(titles)) == len(titles)
    assert all(len(title) < 32 for title in titles)


def test_a_run_is_kept_until_its_source_changes(folder: Path) -> None:
    assert gallery.run_example("count").output == "runs 1\n"
    again = gallery.run_example("count")
    assert again.output == "runs 1\n"
    assert again.picture.read_bytes() == b"a picture"
    script = folder / "count.py"
    script.write_text(script.read_text() + "print('more')\n")
    assert gallery.run_example("count").output == "runs 2\nmore\n"
    assert len(list((folder / "held").iterdir())) == 1


def test_a_failing_example_stops_the_build(folder: Path) -> None:
    (folder / "count.py").write_text('"""Failing: on purpose.\n"""\nraise SystemExit("no luck")\n')
    with pytest.raises(RuntimeError, match="no luck"):
        gallery.run_example("count")
    assert list((folder / "held").iterdir()) == []


def test_a_page_has_picture_output_and_code(folder: Path) -> None:
    example = gallery.read_example("count")
    page = gallery.write_example(example, gallery.run_example("count"))
    assert page.startswith("# Counting\n\nHow often this was run.")
    assert all(part in page for part in ("(count.png)", "runs 1", "runs = Path("))
    assert "picture: count.png" not in page.split("```python")[0]
