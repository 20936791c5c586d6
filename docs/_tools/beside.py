"""Set the committed reports beside the paper: ``python docs/_tools/beside.py``.

The tables of ``docs/results`` were made before reports had this part themselves. This reads them and
writes ``docs/results/paper.md``; nothing is run again.
"""

from __future__ import annotations

import re
import statistics
from pathlib import Path

from hyperdlw.bench.paper import write_beside
from hyperdlw.bench.report import list_own_models
from hyperdlw.bench.tables import NETWORKS, REFERENCE, TABLES, wrap_prose, write_rows

RESULTS = Path(__file__).parents[1] / "results"
NAMES = ("simple", "targets", "rivals", "pnp")
Figures = dict[tuple[str, str, str], float]


def read_figures(name: str) -> Figures:
    """PSNR of a committed report, by row label, model and noise."""
    table = TABLES[name]
    labels = {table.name_of(r): (r.label, m) for r, m in table.cells(table.rows)}
    found: Figures = {}
    model = ""
    for line in (RESULTS / f"{name}.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            model = line[3:]
        cells = [c.strip(" *") for c in line.strip("|").split("|")]
        if model in ("SSIM", "SAM in degrees") or len(cells) <= len(table.noise):
            continue
        values = [re.match(r"[*]*(\d+\.\d+)", c) for c in cells[1 : 1 + len(table.noise)]]
        if not all(values):
            continue
        label, of = (
            ("noisy", "noisy") if cells[0] == "noisy" else labels.get(cells[0], (cells[0], model))
        )
        of = of if not table.models or of == "noisy" else model
        for noise, value in zip(table.noise, values, strict=True):
            assert value is not None
            found[label, of, noise] = float(value[1])
    return found


def compare_by_case(figures: Figures) -> list[str]:
    """Ours minus the authors' checkpoints, each network in its own models, by noise case."""
    noise = TABLES["simple"].noise
    cells = []
    for n in noise:
        gaps = [
            figures[name, m, n] - figures[REFERENCE + name, m, n]
            for name in NETWORKS
            for m in list_own_models(name)
        ]
        cells.append(f"{statistics.fmean(gaps):+.2f}")
    return write_rows([f"case {i}" for i in range(1, 6)], [cells], left=0)


def main() -> None:
    lines = [
        "# The paper beside our reports",
        "",
        "Written by `python docs/_tools/beside.py` from the pages of this folder, which were not run again "
        "for it; they have no SSIM by case. Reports that are made from now on have this part themselves.",
        "",
    ]
    for name in NAMES:
        figures = read_figures(name)
        beside = write_beside(TABLES[name], {"psnr": figures}, same_data=False)
        shown = [x for x in beside if not x.startswith("## ")]
        lines += [
            f"## {TABLES[name].title}",
            "",
            *[x.replace("scenes named above", f"scenes of [{name}]({name}.md)") for x in shown],
        ]
        if name == "simple":
            lines += [
                "Our networks less the checkpoints released with the paper, each in the models it was "
                "trained through. Ours have seen all five cases and airborne scenes, theirs case 1 alone:",
                "",
                *compare_by_case(figures),
                "",
            ]
    text = re.sub("\n{3,}", "\n\n", "\n".join(lines))
    (RESULTS / "paper.md").write_text(wrap_prose(text.rstrip() + "\n"), encoding="utf-8")


if __name__ == "__main__":
    main()
