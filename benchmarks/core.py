"""Speed and memory of the core against plain transcriptions, as one Markdown table.

    python benchmarks/core.py [--only memory svt network saved step pair] [--repeats 3] [--threads 1]

Both sides of a ratio are timed in this process, in turn, and the best of the repeats counts. The
transcriptions say the same thing in stock PyTorch: Conv3d layers, torch.linalg.svd, complex FFTs
and automatic differentiation through every step.
"""

from __future__ import annotations

import argparse
import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from hyperdlw import models
from hyperdlw.networks.dlwnet import DLWnet3d
from hyperdlw.solver import Backward, Problem, solve
from hyperdlw.solver import penalties as prox
from hyperdlw.train import Objective, add_gradients
from hyperdlw.weights import FLOOR

SOURCES = ("nn", "tv", "tvs")
Row = tuple[str, str, str, str, str]


def best(repeats: int, *calls: Callable[[], object]) -> list[float]:
    """Shortest seconds of every call; they take turns, so that a busy machine hits all alike."""
    times = [math.inf] * len(calls)
    for call in calls:
        call()
    for _ in range(repeats):
        for i, call in enumerate(calls):
            begin = time.perf_counter()
            call()
            times[i] = min(times[i], time.perf_counter() - begin)
    return times


def ratio_row(what: str, ours: float, plain: float, bar: str, note: str) -> Row:
    return what, f"{1e3 * ours:.0f} ms", f"{1e3 * plain:.0f} ms", f"{plain / ours:.1f}x{bar}", note


def uniform(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


# The transcriptions


def plain_svt(v: Tensor, t: float) -> Tensor:
    """Of (..., pixel, band) matrices."""
    left, values, right = torch.linalg.svd(v, full_matrices=False)
    return (left * (values - t).clamp_min(0).unsqueeze(-2)) @ right


class PlainNet(torch.nn.Module):
    """The network as a chain of Conv3d layers, with the weights of ``net``."""

    def __init__(self, net: DLWnet3d) -> None:
        super().__init__()
        layers: list[torch.nn.Module] = []
        for space, spectrum in zip(net.space, net.spectrum, strict=True):
            for conv, at, size in ((space, 2, (1, 3, 3)), (spectrum, 4, (3, 1, 1))):
                pad = tuple(n // 2 for n in size)
                layer = torch.nn.Conv3d(conv.in_channels, conv.out_channels, size, padding=pad)
                layer.load_state_dict({"weight": conv.weight.unsqueeze(at), "bias": conv.bias})
                layers += [layer, torch.nn.ReLU()]
        last = torch.nn.Conv3d(net.last.in_channels, 1, 3, padding=1)
        last.load_state_dict(net.last.state_dict())
        self.layers = torch.nn.Sequential(*layers, last)

    def forward(self, y: Tensor) -> Tensor:
        return self.layers(y.unsqueeze(-4)).squeeze(-4)


def plain_nn(y: Tensor, w: Tensor) -> Tensor:
    mu = 2.5 / math.sqrt(y.shape[-2] * y.shape[-1])
    lam, x, m = 10 * mu, y, torch.zeros_like(y)
    for _ in range(15):
        v = (x - m / mu).flatten(-2).mT
        u = plain_svt(v, 1 / mu).mT.reshape(y.shape)
        x = (lam * w * y + mu * u + m) / (lam * w + mu)
        m = m + mu * (u - x)
        mu *= 1.03
    return u


def plain_tv(y: Tensor, w: Tensor, axes: tuple[int, ...]) -> Tensor:
    mu, lam = 0.1, 0.1
    symbol = torch.ones(y.shape[-3:])
    for a in axes:
        n = y.shape[a]
        view = [n if b == a else 1 for b in (-3, -2, -1)]
        symbol = symbol + (4 * torch.sin(math.pi * torch.arange(n) / n) ** 2).view(view)
    x, z, mz = y, y, torch.zeros_like(y)
    m = [torch.zeros_like(y) for _ in axes]
    for _ in range(20):
        v = [x.roll(-1, a) - x - p / mu for a, p in zip(axes, m, strict=True)]
        g = [torch.sign(d) * F.relu(d.abs() - lam / mu) for d in v]
        r = z + mz / mu
        for a, d, p in zip(axes, g, m, strict=True):
            q = d + p / mu
            r = r + q.roll(1, a) - q
        x = torch.fft.ifftn(torch.fft.fftn(r, dim=(-3, -2, -1)) / symbol, dim=(-3, -2, -1)).real
        z = (w * y + mu * x - mz) / (w + mu)
        m = [p + mu * (d - (x.roll(-1, a) - x)) for a, d, p in zip(axes, g, m, strict=True)]
        mz = mz + mu * (z - x)
        mu *= 1.05
    return x


def plain_loss(logits: Tensor, noisy: Tensor, clean: Tensor) -> Tensor:
    flat = logits.flatten(-3)
    w = (torch.softmax(flat, -1) * flat.shape[-1] + FLOOR).view_as(logits)
    images = plain_nn(noisy, w), plain_tv(noisy, w, (-2, -1)), plain_tv(noisy, w, (-3,))
    return torch.stack([((x - clean) ** 2).mean() for x in images]).mean()


# What is measured


def svt_rows(repeats: int) -> Iterator[Row]:
    v = uniform(31, 262144)
    tall = v.mT.contiguous()
    t = 0.1 * float(torch.linalg.matrix_norm(v, 2))
    ours, plain = best(repeats, lambda: prox.svt(v, t), lambda: plain_svt(tall, t))
    exact = plain_svt(tall.double(), t)
    errors = [float((x - exact).abs().max()) for x in (prox.svt(v, t).mT, plain_svt(tall, t))]
    note = "max error against float64 {:.0e}, plain {:.0e}".format(*errors)
    yield ratio_row("svt 262144x31", ours, plain, " (>= 5)", note)


def network_rows(repeats: int) -> Iterator[Row]:
    net, y = DLWnet3d().requires_grad_(False), uniform(1, 31, 128, 128)
    stock = PlainNet(net).requires_grad_(False)
    ours, plain = best(repeats, lambda: net(y), lambda: stock(y))
    want = stock(y)
    error = float((net(y) - want).abs().max() / want.abs().max())
    yield ratio_row(
        "network forward 31x128x128",
        ours,
        plain,
        "",
        f"max relative difference {error:.1e} (<= 1e-5)",
    )


def kept_bytes(run: Callable[[], Tensor]) -> int:
    """Bytes of the distinct storages that the graph of a result keeps for its backward pass."""
    kept: dict[int, Tensor] = {}

    def pack(t: Tensor) -> Tensor:
        # Holding the tensor keeps its address from being used again.
        kept[t.untyped_storage().data_ptr()] = t
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        result = run()
    assert result.requires_grad
    return sum(t.untyped_storage().nbytes() for t in kept.values())


def saved_rows(repeats: int) -> Iterator[Row]:
    y, w = uniform(31, 64, 64), (0.5 + uniform(31, 64, 64, seed=1)).requires_grad_()
    model = models.build_model("tv", y.shape)

    def kept(backward: Backward) -> int:
        return kept_bytes(lambda: solve(Problem(model, y, w), backward=backward).x)

    unroll = kept("unroll")
    for backward, bar in (("implicit", " (>= 10)"), ("checkpoint", "")):
        size = kept(backward)
        yield (
            f"kept for backward, tv 31x64x64, {backward}",
            f"{size / 2**20:.1f} MiB",
            f"{unroll / 2**20:.1f} MiB",
            f"{unroll / size:.1f}x less{bar}",
            "against unroll, 20 steps",
        )


Step = Callable[[], Tensor]


def training_steps(batch: int, side: int) -> tuple[DLWnet3d, Step, PlainNet, Step]:
    """The same training step written our way and plainly."""
    torch.manual_seed(0)
    net = DLWnet3d()
    stock = PlainNet(net)
    clean = uniform(batch, 31, 1, 1).expand(batch, 31, side, side).contiguous()
    noisy = clean + 0.2 * (uniform(batch, 31, side, side, seed=1) - 0.5)

    def ours() -> Tensor:
        net.zero_grad()
        return add_gradients(net, noisy, clean, Objective(SOURCES))[0]

    def plain() -> Tensor:
        stock.zero_grad()
        loss = plain_loss(stock(noisy), noisy, clean)
        loss.backward()
        return loss.detach()

    return net, ours, stock, plain


def step_rows(repeats: int) -> Iterator[Row]:
    for batch, side in ((3, 20), (2, 64)):
        net, ours, stock, plain = training_steps(batch, side)
        a, b = best(repeats, ours, plain)
        off = abs(float(ours() / plain()) - 1)
        grads = [torch.cat([p.grad.flatten() for p in n.parameters()]) for n in (net, stock)]
        slope = abs(float(grads[0].norm() / grads[1].norm()) - 1)
        note = f"relative difference of loss {off:.0e}, of gradient norm {slope:.0e}"
        yield ratio_row(f"training step {batch} x 31x{side}x{side}", a, b, " (>= 2)", note)


def pair_child(batch: int, side: int, repeats: int) -> None:
    """Our training step in a process of its own, when a line comes in; prints the shortest seconds."""
    _, ours, _, _ = training_steps(batch, side)
    ours()
    for _ in sys.stdin:
        begin = time.perf_counter()
        for _ in range(repeats):
            ours()
        print((time.perf_counter() - begin) / repeats, flush=True)


def pair_rows(repeats: int) -> Iterator[Row]:
    """How training is meant to run on two cores: two processes of one thread share the batch.

    The all-reduce of the 113 281 gradients between them is left out; it takes about a millisecond.
    """
    threads = torch.get_num_threads()
    for batch, side in ((4, 20), (2, 64)):
        command = [sys.executable, __file__, "--threads", "1", "--repeats", "3"]
        command += ["--pair-child", f"{batch // 2},{side}"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        children = [subprocess.Popen(command, **pipes) for _ in range(2)]  # type: ignore[call-overload]

        def ours(children: list[subprocess.Popen[str]] = children) -> float:
            for c in children:
                print("go", file=c.stdin, flush=True)
            return max(float(c.stdout.readline()) for c in children)  # type: ignore[union-attr]

        torch.set_num_threads(2)
        plain = training_steps(batch, side)[3]
        ours()
        plain()
        a = b = math.inf
        for _ in range(repeats):
            a = min(a, ours())
            b = min(b, best(1, plain)[0])
        for c in children:
            c.communicate()
        note = "two processes of one thread against one process of two threads"
        yield ratio_row(
            f"training step {batch} x 31x{side}x{side}, two cores", a, b, " (>= 2)", note
        )
    torch.set_num_threads(threads)


def memory_child(how: str) -> None:
    """One training step in a process of its own; prints its peak in bytes, and before the step."""
    net, clean = DLWnet3d(), uniform(10, 31, 64, 64)
    noisy = clean + 0.2 * (uniform(10, 31, 64, 64, seed=1) - 0.5)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    add_gradients(net, noisy, clean, Objective(SOURCES, backward=how))
    unit = 1 if sys.platform == "darwin" else 1024
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit, before * unit)


def memory_rows(repeats: int) -> Iterator[Row]:
    for how in ("unroll", "checkpoint"):
        command = [sys.executable, __file__, "--memory-child", how]
        command += ["--threads", str(torch.get_num_threads())]
        out = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
        peak, before = (int(n) / 1e9 for n in out.split())
        yield (
            f"peak memory, training step 10 x 31x64x64, {how}",
            f"{peak:.2f} GB",
            "",
            "(< 3 GB)",
            f"{before:.2f} GB before the step",
        )


# Memory comes first: a new process inherits the peak of the one that starts it.
PARTS = {
    "memory": memory_rows,
    "svt": svt_rows,
    "network": network_rows,
    "saved": saved_rows,
    "step": step_rows,
    "pair": pair_rows,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--memory-child", help=argparse.SUPPRESS)
    parser.add_argument("--pair-child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    if args.memory_child:
        return memory_child(args.memory_child)
    if args.pair_child:
        batch, side = map(int, args.pair_child.split(","))
        return pair_child(batch, side, args.repeats)
    print("| what | hyperdlw | plain | ratio (bar) | note |\n|---|---|---|---|---|")
    for name in (n for n in PARTS if n in args.only):
        for row in PARTS[name](args.repeats):
            print("| " + " | ".join(row) + " |", flush=True)
    return None


if __name__ == "__main__":
    main()
