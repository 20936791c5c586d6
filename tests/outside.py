"""A package of somebody else, made of source text: modules and entry points as ``pip install`` leaves them.

package = Package(tmp_path, {"my_models": SOURCE}, {"hyperdlw.models": {"mine": "my_models"}})
ran = package.run("denoise", "in.npy", "out.npy", "--model", "mine")     # in a process of its own
with package.installed():                                             # in this process
    hyperdlw.denoise(cube, model="mine")
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import hyperdlw
from hyperdlw.io import scan_entry_points

COMMAND = "import sys; from hyperdlw.app.cli.main import run; sys.exit(run(sys.argv[1:]))"


@dataclass(frozen=True)
class Package:
    """A package in ``folder``.

    Attributes:
        modules: name of every module -> its source.
        entry_points: group -> name -> what it points to, such as "module" or "module:function".
    """

    folder: Path
    modules: Mapping[str, str]
    entry_points: Mapping[str, Mapping[str, str]]
    name: str = "outside"

    def __post_init__(self) -> None:
        for module, source in self.modules.items():
            (self.folder / f"{module}.py").write_text(source)
        info = self.folder / f"{self.name}-1.0.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {self.name}\nVersion: 1.0\n")
        lines = []
        for group, points in self.entry_points.items():
            lines += [f"[{group}]", *(f"{name} = {target}" for name, target in points.items())]
        (info / "entry_points.txt").write_text("\n".join(lines) + "\n")

    @property
    def environment(self) -> dict[str, str]:
        """The variables of a process that finds the package and hyperdlw."""
        here = Path(hyperdlw.__file__).parents[1]
        known = os.environ.get("PYTHONPATH", "")
        path = os.pathsep.join(p for p in (str(self.folder), str(here), known) if p)
        return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}

    def run(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        """``hyperdlw ARGUMENTS`` in a process of its own, in the folder of the package."""
        return subprocess.run(
            [sys.executable, "-c", COMMAND, *map(str, arguments)],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=300,
        )

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Known to this process, for as long as the block lasts."""
        sys.path.insert(0, str(self.folder))
        scan_entry_points.cache_clear()
        try:
            yield
        finally:
            sys.path.remove(str(self.folder))
            scan_entry_points.cache_clear()
            for module in self.modules:
                sys.modules.pop(module, None)
