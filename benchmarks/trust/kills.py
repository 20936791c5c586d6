"""Random kills: jobs that are cut short at random moments lose nothing and mix nothing.

A trial starts one of four jobs (memory, strips, workers, training) on a tiny cube in a process of its
own, and harms it at a random moment: SIGKILL, SIGTERM, Ctrl-C, no more room on the disk (a limit on
the size of files, or a filler file if the trials lie on a small file system), the input rewritten, or
the input cut short. Afterwards the output must be the old one or a complete new one, the inputs must
be as they were, and the same command again must give the bytes of a run that nobody disturbed. Whoever
answers must do so in one sentence with a documented exit code.

    python benchmarks/trust/kills.py --trials 200 --seed 1
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from hyperdlw import io
from hyperdlw.app.cli import main as command_line
from hyperdlw.networks.files import load_network
from hyperdlw.pipeline import denoise_file
from hyperdlw.solver import Schedule
from hyperdlw.testbed import scenes

SHAPE = (6, 40, 32)
SMALL = 2**26
"""A file system of fewer bytes is filled; on a larger one the size of files is limited."""
SIGNALS = {"SIGKILL": signal.SIGKILL, "SIGTERM": signal.SIGTERM, "Ctrl-C": signal.SIGINT}
FAULTS = (*SIGNALS, "disk full", "input changed", "input cut short")
CODES = {0, 2, 4, 130, -signal.SIGKILL, -signal.SIGTERM}
RECIPE = """name = "tiny"
sources = ["tvs"]
scenes = ["a", "b"]
filters = 4
patch = 8
batch = 2
steps = 12
warmup = 2
rate = 0.01
validate = 4
"""


class Broken(Exception):
    """A trial lost something, or mixed something."""


@dataclass(frozen=True)
class Work:
    """A job: how it runs in a folder, what it reads, what it makes, and how results are compared."""

    run: Callable[[Path], int]
    input: str
    output: str
    digest: Callable[[Path], bytes]


def make_inputs(folder: Path, seed: int) -> None:
    """A noisy cube, scenes and a recipe."""
    rng = np.random.default_rng(seed)
    cube = scenes.synthetic(*SHAPE, rng=rng)
    noisy = cube.data + 0.1 * rng.standard_normal(SHAPE).astype(np.float32)
    io.save_cube(type(cube).from_array(noisy.astype(np.float32)), folder / "in.hdr")
    (folder / "scenes").mkdir()
    for k, name in enumerate("ab"):
        scene = scenes.synthetic(
            6, 24, 20, rng=np.random.default_rng([seed, 0] if k == 0 else k)
        )  # one of them changes
        io.save_cube(scene, folder / "scenes" / f"{name}.npy")
    (folder / "tiny.toml").write_text(RECIPE)


def restore(folder: Path, tile: int | None, workers: int | None) -> int:
    """Denoise as the command line does; returns its exit code."""
    try:
        denoise_file(
            folder / "in.hdr",
            folder / "out.hdr",
            overwrite=True,
            model="tvs",
            weights="precision",
            schedule=Schedule(8, 0.1),
            tile=tile,
            workers=workers,
        )
    except KeyboardInterrupt:
        command_line.console.complain("interrupted")
        return command_line.console.INTERRUPTED
    except Exception as error:
        if not hasattr(error, "exit_code") and not isinstance(error, OSError):
            traceback.print_exc()
        return command_line._explain(error)
    return 0


def teach(folder: Path) -> int:
    """Train a tiny network, with a checkpoint after every step."""
    words = ["train", folder / "tiny.toml", "--data", folder / "scenes", "--out", folder / "run"]
    return command_line.run([*map(str, words), "--resume", "--checkpoint-minutes", "0"])


def read_bytes(folder: Path) -> bytes:
    return (folder / "out.img").read_bytes() + (folder / "out.hdr").read_bytes()


def read_tensors(folder: Path) -> bytes:
    """The numbers of the trained network; its card also tells the time that the training took."""
    state = load_network(folder / "run" / "tiny.safetensors").net.state_dict()
    return b"".join(name.encode() + state[name].numpy().tobytes() for name in sorted(state))


JOBS = {
    "memory": Work(lambda f: restore(f, None, None), "in.img", "out.img", read_bytes),
    "strips": Work(lambda f: restore(f, 9, None), "in.img", "out.img", read_bytes),
    "workers": Work(lambda f: restore(f, 9, 2), "in.img", "out.img", read_bytes),
    "training": Work(teach, "scenes/a.npy", "run/tiny.safetensors", read_tensors),
}


def find_log(folder: Path) -> Path:
    """Where a job talks to: not on the disk that gets full."""
    return Path(tempfile.gettempdir()) / f"{folder.parent.name}-{folder.name}.log"


def start(work: Work, folder: Path, limit: int | None = None) -> int:
    """The job in a process group of its own; returns its number."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    os.setsid()
    log = os.open(find_log(folder), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    code = command_line.console.UNEXPECTED
    try:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        code = work.run(folder)
    except KeyboardInterrupt:
        code = command_line.console.INTERRUPTED
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def finish(child: int, patience: float = 120.0) -> int:
    """Wait for a job and everything it started; returns its exit code, minus the signal if it died."""
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    until = time.monotonic() + patience
    while list_group(child):
        if time.monotonic() > until:
            os.killpg(child, signal.SIGKILL)
            raise Broken(f"processes of the job lived on for {patience:g} s after its end")
        time.sleep(0.02)
    return status


def list_group(leader: int) -> list[int]:
    """Living processes of a group."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, group = entry.read_text().rpartition(")")[2].split()[:3]
        except (OSError, ValueError):
            continue
        if int(group) == leader and state != "Z":
            found.append(int(entry.parent.name))
    return found


def run_whole(name: str, folder: Path) -> tuple[int, bytes, float]:
    """Exit code, result and seconds of a job that nobody disturbs."""
    begin = time.monotonic()
    code = finish(start(JOBS[name], folder))
    seconds = time.monotonic() - begin
    return code, JOBS[name].digest(folder) if code == 0 else b"", seconds


@dataclass(frozen=True)
class Known:
    """What a job gives with the first input and with the second, and how long it takes."""

    first: bytes
    second: bytes
    seconds: float


def know(name: str, root: Path) -> Known:
    """Two references of a job."""
    found = []
    for seed in (1, 2):
        folder = root / f"whole-{name}-{seed}"
        folder.mkdir()
        make_inputs(folder, seed)
        found.append(run_whole(name, folder))
        if found[-1][0] != 0:
            raise Broken(find_log(folder).read_text())
        find_log(folder).unlink()
        shutil.rmtree(folder)
    return Known(found[0][1], found[1][1], min(f[2] for f in found))


def count_room(folder: Path) -> int | None:
    """Bytes that are free on a small file system; None on a large one."""
    about = os.statvfs(folder)
    small = about.f_blocks * about.f_frsize < SMALL
    return about.f_bavail * about.f_frsize if small else None


def harm(work: Work, folder: Path, fault: str, known: Known, rng: np.random.Generator) -> int:
    """Run a job and harm it at a random moment; returns its exit code."""
    limit = None
    if fault == "disk full":
        room = count_room(folder)
        size = (folder / "in.img").stat().st_size
        if room is None:
            limit = int(rng.integers(4096, 2 * size))  # what the job says still fits
        else:
            with open(folder / "filler", "wb") as file:
                os.posix_fallocate(file.fileno(), 0, max(1, room - int(rng.integers(1, 12 * size))))
    child = start(work, folder, limit)
    time.sleep(float(rng.uniform(0, known.seconds)) if fault != "disk full" else 0)
    if fault in SIGNALS:
        try:
            # A terminal sends Ctrl-C to the whole group.
            send = os.killpg if fault == "Ctrl-C" else os.kill
            send(child, SIGNALS[fault])
        except ProcessLookupError:  # it has not made its group yet
            os.kill(child, SIGNALS[fault])
    elif fault == "input changed":
        shutil.copyfile(folder / "other" / work.input, folder / work.input)
    elif fault == "input cut short":
        path = folder / work.input
        os.truncate(path, int(rng.integers(0, path.stat().st_size)))
    return finish(child)


def check(good: bool, what: str) -> None:
    if not good:
        raise Broken(what)


def try_once(name: str, fault: str, known: Known, root: Path, rng: np.random.Generator) -> str:
    """One trial; returns how the harmed run ended. Raises Broken."""
    work = JOBS[name]
    folder = Path(tempfile.mkdtemp(dir=root))
    make_inputs(folder, 1)
    (folder / "other").mkdir()
    make_inputs(folder / "other", 2)
    source = {p: p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
    old = name != "training" and bool(rng.integers(2))
    if old:  # an output of an earlier run on other data
        (folder / "out.img").write_bytes(known.second[: len(source[folder / "in.img"])])
        shutil.copyfile(folder / "in.hdr", folder / "out.hdr")
    code = harm(work, folder, fault, known, rng)
    log = find_log(folder)
    said = log.read_text() if log.exists() else ""
    check(code in CODES, f"exit code {code}: {said}")
    check("Traceback" not in said, said)
    told = [line for line in said.splitlines() if line.startswith("hyperdlw: ")]
    if code in (2, 4):
        check(len([t for t in told if "note:" not in t and "plan:" not in t]) == 1, said)
    result = work.digest(folder) if code == 0 else None
    touched = {folder / work.input} if fault.startswith("input") else set()
    for path, raw in source.items():
        check(path in touched or path.read_bytes() == raw, f"{path.name} was changed")
    allowed = (known.first, known.second) if fault == "input changed" else (known.first,)
    if result is not None:
        check(result in allowed, "the harmed run wrote something else")
    elif (folder / work.output).exists() and name != "training":
        held = (folder / "out.img").read_bytes()
        whole = [raw[: len(held)] for raw in (known.first, known.second)]
        check(held in whole, "a partial output has the name of a complete one")
    (folder / "filler").unlink(missing_ok=True)
    log.unlink(missing_ok=True)
    final, right = go_on(name, fault, folder), known.first
    if fault == "input changed":
        right = known.second
    if fault == "input cut short":
        raw = source[folder / work.input]
        (folder / work.input).write_bytes(raw)
        final = go_on(name, fault, folder)
    if name == "training" and result is not None:
        right = result  # a finished training stays as it is
    if name == "training" and fault == "input changed":
        # Whatever is resumed or refused, the network must be complete; a mixture is told below.
        check(final in (known.first, known.second, b""), "a network of old and new data, unsaid")
    else:
        check(final == right, "the same command again gave other bytes")
    left = [p.name for p in folder.rglob("*") if p.name.endswith((".partial", ".old", ".hyperdlw"))]
    check(not left or final == b"", f"left behind: {left}")
    shutil.rmtree(folder)
    return "finished" if code == 0 else "killed" if code < 0 else f"refused ({code})"


def go_on(name: str, fault: str, folder: Path) -> bytes:
    """The same command again: its result, or nothing if it refuses."""
    code, found, _ = run_whole(name, folder)
    said = find_log(folder).read_text()
    find_log(folder).unlink()
    check(code in (0, 2), f"the same command again: exit code {code}: {said}")
    refusable = fault.startswith("input")
    check(code == 0 or refusable, f"the same command again: {said}")
    check("Traceback" not in said, said)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, help="stop after so many, with the trials so far")
    parser.add_argument("--place", type=Path, help="where the trials lie, such as a small tmpfs")
    parser.add_argument("--jobs", default=",".join(JOBS))
    parser.add_argument("--faults", default=",".join(FAULTS))
    parser.add_argument("--out", type=Path, help="append a line of JSON with the figures")
    parser.add_argument("--keep", action="store_true", help="keep the folders of broken trials")
    given = parser.parse_args()
    torch.set_num_threads(1)
    root = Path(tempfile.mkdtemp(dir=given.place, prefix="kills-"))
    jobs, faults = given.jobs.split(","), given.faults.split(",")
    known = {name: know(name, root) for name in jobs}
    print({name: round(k.seconds, 2) for name, k in known.items()}, flush=True)
    pairs = [(name, fault) for name in jobs for fault in faults]
    counts, broken = Counter[str](), []
    until = time.monotonic() + 60 * (given.minutes or float("inf"))
    for k in range(given.trials):
        if time.monotonic() > until:
            break
        name, fault = pairs[k % len(pairs)]
        rng = np.random.default_rng([given.seed, k])
        try:
            how = try_once(name, fault, known[name], root, rng)
        except Broken as error:
            how = "BROKEN"
            broken.append([k, name, fault, str(error)])
            print(f"trial {k}: {name}, {fault}: {error}", flush=True)
        counts[f"{name}, {fault}: {how}"] += 1
    for what, count in sorted(counts.items()):
        print(f"{count:5d}  {what}")
    made = counts.total()
    print(f"{made} trials, {len(broken)} broken")
    if given.out is not None:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        facts = {"trials": made, "seed": given.seed, "broken": broken, "ends": dict(counts)}
        with given.out.open("a") as file:
            file.write(json.dumps(facts) + "\n")
    if not (given.keep and broken):
        shutil.rmtree(root, ignore_errors=True)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
