"""Training stability: the exact derivative of singular value thresholding against the SVD's.

    python benchmarks/stability.py [--out docs/results]

Writes ``stability.md``: gradients that are not finite, and losses of a short training of weights through
fifteen steps of nn, with both derivatives on the same data.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from hyperdlw.bench.experiment import write_files
from hyperdlw.bench.tables import write_rows
from hyperdlw.solver.penalties import svt_bands

Threshold = Callable[[Tensor, float], Tensor]
DRAWS, STEPS, LEARNING = 50, 15, 40
SHAPE = (8, 12, 12)


def svt_by_svd(v: Tensor, t: float) -> Tensor:
    """The same map, differentiated through the singular vectors of the Gram matrix, as released."""
    x = v.flatten(1)
    u, s, _ = torch.linalg.svd(x @ x.T)
    root = s.sqrt()
    shrunk = torch.relu(root - t) / root
    return (u * shrunk @ u.T @ x).view_as(v)


WAYS: dict[str, Threshold] = {"exact (ours)": svt_bands, "through the SVD": svt_by_svd}


def make_inputs(seed: int) -> dict[str, Tensor]:
    """Images with ordinary, repeated, equal and vanishing singular values."""
    g = torch.Generator().manual_seed(seed)
    plain = torch.rand(SHAPE, generator=g)
    twice, empty = plain.clone(), plain.clone()
    twice[1], empty[2] = twice[0], 0.0
    equal = torch.linalg.qr(torch.randn(144, 8, generator=g))[0].T.reshape(SHAPE).contiguous()
    return {
        "random": plain,
        "two equal bands": twice,
        "an empty band": empty,
        "equal values": equal,
    }


def count_broken(way: Threshold, kind: str) -> int:
    """Draws whose gradient is not finite."""
    broken = 0
    for seed in range(DRAWS):
        v = make_inputs(seed)[kind].requires_grad_(True)
        probe = torch.rand(SHAPE, generator=torch.Generator().manual_seed(seed + 1000))
        (way(v, 0.1) * probe).sum().backward()
        assert v.grad is not None
        broken += not bool(torch.isfinite(v.grad).all())
    return broken


def train_weights(way: Threshold, kind: str) -> list[float]:
    """Losses of Adam on the logits of one noisy image, through the steps of nn."""
    clean = make_inputs(0)[kind]
    noisy = clean + 0.1 * torch.randn(SHAPE, generator=torch.Generator().manual_seed(1)) * (
        clean != 0
    )
    logits = torch.zeros(SHAPE, requires_grad=True)
    adam = torch.optim.Adam([logits], 0.05)
    losses = []
    for _ in range(LEARNING):
        if not bool(torch.isfinite(logits).all()):  # nothing can be computed any more
            losses.append(math.nan)
            continue
        w = logits.numel() * torch.softmax(logits.flatten(), 0).view(SHAPE)
        mu = 2.5 / math.sqrt(SHAPE[1] * SHAPE[2])
        scale, x, dual = 10 * mu, noisy, torch.zeros(SHAPE)
        for _ in range(STEPS):
            z = way(x + dual / mu, 0.2 / mu)
            x = (scale * w * noisy + mu * z - dual) / (scale * w + mu)
            dual, mu = dual + mu * (x - z), 1.03 * mu
        loss = ((z - clean) ** 2).mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
        losses.append(float(loss.detach()))
    return losses


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--out", type=Path, default=Path("docs/results"))
    out = words.parse_args().out
    kinds = list(make_inputs(0))
    probe = make_inputs(0)["random"]
    torch.testing.assert_close(svt_bands(probe, 0.5), svt_by_svd(probe, 0.5), rtol=0, atol=1e-4)
    counts = [(name, *[str(count_broken(way, k)) for k in kinds]) for name, way in WAYS.items()]
    rows = []
    for kind in kinds:
        for name, way in WAYS.items():
            losses = train_weights(way, kind)
            shown = [f"{losses[i]:.5f}" for i in (0, LEARNING // 4, LEARNING // 2, LEARNING - 1)]
            rows.append((kind, name, *shown, str(sum(not math.isfinite(v) for v in losses))))
    steps = [f"step {i}" for i in (1, LEARNING // 4 + 1, LEARNING // 2 + 1, LEARNING)]
    text = [
        "# Training stability",
        "",
        "The paper names unstable training as a limitation. Thresholding of singular values is "
        "differentiated through an SVD in its program, which divides by differences of singular values; "
        "ours uses divided differences of the eigenvalues, which stay finite when these coincide.",
        "",
        f"Gradients that are not finite, of {DRAWS} draws (float32, {'x'.join(map(str, SHAPE))}):",
        "",
        *write_rows(("derivative", *kinds), counts),
        "",
        f"Mean squared error while weights are trained through {STEPS} steps of nn:",
        "",
        *write_rows(("image", "derivative", *steps, "losses not finite"), rows, left=2),
        "",
        "Made by `python benchmarks/stability.py`.",
    ]
    write_files(out, {"stability.md": "\n".join(text)})


if __name__ == "__main__":
    main()
