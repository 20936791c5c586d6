"""The transfer theory of the paper in numbers: what a network trained with some models is worth to another.

At the solution of  1/2 sum w (y - x)^2 + R(x)  the first-order condition gives y - x = grad R(x) / w.
With the noise n = y - clean the squared error of a model is therefore

    sum (x - clean)^2 = sum (n - u)^2 = sum n^2 - 2 n u + u^2,        u = grad R / w ,

and two groups of models that share the weights differ, in the mean over each group, by

    gap = -2 sum n (mean_S u - mean_T u) + sum (mean_S u^2 - mean_T u^2) .                        (*)

Lemma 3 bounds this gap by a quantity free of w, using w >= floor only; U is that bound. Everything
here is *as reconstructed* from (*) and from a list of the constants in print: the wording of the
paper may group terms differently. ``eps`` is the paper's lower limit of W = sqrt(w), so
``eps**2`` is the smallest w.

The bounds are worst cases. With the shipped floor, eps = 0.01, the factor 1/eps^4 is 1e8: they rank, they
do not predict. ``U`` is symmetric in source and target, depends on eps, and needs
regularisers on a common scale (:func:`subgradient` divides by the scale of the data term).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from .. import models
from ..errors import BadOption
from ..solver import Model

EPS = 1.0
"""eps at which U ranks networks: the mean weight. Below 0.3 the second term, with 1/eps^4, is all that
counts, and U then ranks the networks for nn worse (``hyperdlw bench theory``)."""


def regulariser(model: Model) -> Callable[[Tensor], Tensor]:
    """R(x) = sum_i g_i(K_i x) / scale, scale the factor of the data term 1/2 scale sum w (y - x)^2.

    Raises BadOption if a term has no formula for its value.
    """
    one = torch.ones(1, 1, 1)
    # Twice the data term of one voxel with weight and residual 1.
    scale = 2.0 * float(model.fidelity.value(torch.zeros(1, 1, 1), one, one))

    def value(x: Tensor) -> Tensor:
        total = x.new_zeros(())
        for t in model.terms:
            if t.value is None:
                raise BadOption("this model has a term without a formula for its value")
            total = total + t.value(t.operator.apply(x))
        return total / scale

    return value


def subgradient(model: Model | str, x: Tensor) -> Tensor:
    """One element of the subdifferential of R at x, by automatic differentiation of its value.

    >>> subgradient("tvs", torch.tensor([1.0, 3.0, 2.0]).view(3, 1, 1)).flatten()
    tensor([-0.2000,  0.2000,  0.0000])
    """
    built = models.build_model(model, x.shape) if isinstance(model, str) else model
    with torch.enable_grad():
        point = x.detach().clone().requires_grad_(True)
        (found,) = torch.autograd.grad(regulariser(built)(point), point)
    # The derivative of |u| at 0, or of a norm there, may come out as NaN; 0 is a subgradient.
    return torch.nan_to_num(found, nan=0.0, posinf=0.0, neginf=0.0).detach()


def convex_models(shape: Sequence[int]) -> list[str]:
    """Registered models whose terms all have a value that can be differentiated at an image."""
    probe = torch.rand(tuple(shape[-3:]), generator=torch.Generator().manual_seed(0))
    found = []
    for name in models.list_models("model"):
        try:
            subgradient(name, probe)
        except (BadOption, RuntimeError):
            continue
        found.append(name)
    return found


# --- Lemma 3


def _mean(items: Sequence[Tensor]) -> Tensor:
    return torch.stack(tuple(items)).mean(0)


def gap(source: Sequence[Tensor], target: Sequence[Tensor], weight: Tensor, noise: Tensor) -> float:
    """The left side of Lemma 3: |mean_S loss - mean_T loss|, equation (*) of this module.

    Source and target are gradients of regularisers, weight is h = sqrt(w), noise is y - clean.
    """
    h2 = weight**2
    first = -2.0 * (noise * (_mean(source) - _mean(target)) / h2).sum()
    squares = _mean([g**2 for g in source]) - _mean([g**2 for g in target])
    return abs(float(first + (squares / h2**2).sum()))


def a1(source: Sequence[Tensor], target: Sequence[Tensor], noise: Tensor | None = None) -> float:
    """A_1 = 2 sum_m |n_m| |mean_S (grad R)_m - mean_T (grad R)_m| (|n| <= 1 when not given)."""
    apart = (_mean(source) - _mean(target)).abs()
    return 2.0 * float((apart if noise is None else noise.abs() * apart).sum(dtype=torch.float64))


def a2(source: Sequence[Tensor], target: Sequence[Tensor], printed: bool = False) -> float:
    """A_2 corrected: sum_m |mean_S (grad R)_m^2 - mean_T (grad R)_m^2|.

    As printed it is the absolute value of the sum. There differences of opposite sign cancel, but not on
    the left side of the lemma, where each is divided by its own h_m^4: no power of eps makes it a bound.
    """
    apart = _mean([g**2 for g in source]) - _mean([g**2 for g in target])
    return abs(float((apart if printed else apart.abs()).sum(dtype=torch.float64)))


def a1_norm(source: Sequence[Tensor], target: Sequence[Tensor], largest: float) -> float:
    """A_1 as the paper has it: 4 B_d / sqrt(M) ||mean_S grad R - mean_T grad R||_2, gradients at the noisy Y.

    For images in [-B_d, B_d] the noise is at most 2 B_d, and by Cauchy and Schwarz the first term of (*) / M
    is at most A_1 / eps^2 when the gradients are those at the solutions; at Y it is an approximation.

    Args:
        largest: B_d.
    """
    apart = _mean(source) - _mean(target)
    return 4.0 * largest / math.sqrt(apart.numel()) * float(apart.double().norm())


def lemma3_norm(
    source: Sequence[Tensor], target: Sequence[Tensor], eps: float, largest: float
) -> float:
    """Lemma 3 with the norm in A_1, corrected powers of eps and corrected A_2, per voxel."""
    second = a2(source, target) / source[0].numel()
    return a1_norm(source, target, largest) / eps**2 + second / eps**4


def directed_divergence(source: Sequence[Tensor], target: Sequence[Tensor]) -> float:
    """U from a source to a target, per voxel: (2 sum |u_S - u_T| + sum |u_S^2 - u_T^2|) / M.

    u = y - x is grad R / w of every model at its *own* solution x, all with the weights of the network that
    was trained with the source models. There is no eps, and the two directions differ, because the weights
    do.
    """
    return lemma3(source, target, 1.0) / source[0].numel()


def lemma3_printed(
    source: Sequence[Tensor], target: Sequence[Tensor], eps: float, noise: Tensor | None = None
) -> float:
    """A_1 / eps + A_2 / eps^2 with the printed A_2. Not a bound."""
    return a1(source, target, noise) / eps + a2(source, target, printed=True) / eps**2


def lemma3(
    source: Sequence[Tensor], target: Sequence[Tensor], eps: float, noise: Tensor | None = None
) -> float:
    """A_1 / eps^2 + A_2 / eps^4 with the corrected A_2: never below :func:`gap` for h >= eps.

    Each term of (*) is bounded by its absolute value, and 1/h^2 by 1/eps^2.
    """
    return a1(source, target, noise) / eps**2 + a2(source, target) / eps**4


def divergence(
    source: Iterable[str | Model],
    target: Iterable[str | Model],
    x: Tensor,
    y: Tensor | None = None,
    eps: float = EPS,
) -> float:
    """U(x, y): how far the source regularisers are from the target ones at an image, per voxel.

    U = (A_1 / eps^2 + A_2 / eps^4) / M with subgradients at x and the noise y - x.

    Args:
        source, target: names of models, or models built for the shape of x.
        x: image (band, row, col) on the unit interval: clean, or restored.
        y: the noisy image; the noise counts as 1 everywhere when not given.

    >>> x = torch.rand(4, 6, 6, generator=torch.Generator().manual_seed(0))
    >>> divergence(["tv"], ["tv"], x), divergence(["tv"], ["nn"], x) > 0
    (0.0, True)
    """
    s, t = ([subgradient(m, x) for m in group] for group in (source, target))
    if not s or not t:
        raise BadOption("the divergence needs at least one model on either side")
    return lemma3(s, t, eps, None if y is None else y - x) / x.numel()


# --- Lemma 2 and the theorems


def lipschitz(eps: float, largest: float | None = None) -> float:
    """Lipschitz constant 2/eps^3 of h -> 1/h^2 on h >= eps, or 2 B_w / eps^4, larger, as printed.

    >>> lipschitz(0.5), lipschitz(0.5, 2.0)
    (16.0, 64.0)
    """
    if not eps > 0:
        raise BadOption(f"eps must be positive, not {eps}")
    return 2.0 / eps**3 if largest is None else 2.0 * largest / eps**4


def lipschitz_solution(eps: float, largest: float, noisy: float, image: float) -> float:
    """L_H of the map from the weight h to the solution x = y - grad R / h^2 (as reconstructed).

    grad R = h^2 (y - x) is at most B_w^2 (B_y + B_d), and 1/h^2 has the constant of :func:`lipschitz`.

    Args:
        largest: B_w; ``noisy``: B_y, of the noisy image; ``image``: B_d, of the restored one.
    """
    return largest**2 * (noisy + image) * lipschitz(eps)


def transfer_bound(source_loss: float, image: float, slope: float, eps: float) -> float:
    """The theorem for one source and one target: R_T <= R_S + 8 B_d B_r / eps^2 (as reconstructed).

    Errors in [-2 B_d, 2 B_d] have squares that differ by at most 4 B_d |x_S - x_T|, and gradients of at most
    B_r (``slope``) keep the solutions within 2 B_r / eps^2 of each other.
    """
    return source_loss + 8.0 * image * slope / eps**2


def gaussian_complexity(
    outputs: Sequence[Tensor], generator: torch.Generator, draws: int = 200
) -> float:
    """Gaussian complexity E_g max_f 1/N sum_i <g_i, f(Y_i)> of a finite set of functions, by Monte Carlo.

    A single function has complexity 0; K functions at most max_f ||f||_2 sqrt(2 log K) / N (Massart).

    Args:
        outputs: f(Y_i) of every function, (function, sample, ...).
        draws: of the standard normal g; the error falls as 1 / sqrt(draws).
    """
    values = torch.stack(tuple(outputs))
    if values.dim() < 2:
        raise BadOption("outputs need the axes (function, sample, ...)")
    flat = values.flatten(1).double()
    total = 0.0
    for _ in range(draws):
        g = torch.randn(flat.shape[1], generator=generator, dtype=torch.float64)
        total += float((flat @ g).max())
    return total / (draws * values.shape[1])


def training_bound(
    training_error: float,
    complexity: float,
    samples: int | Sequence[int],
    delta: float,
    largest_loss: float,
    lipschitz_loss: float,
) -> float:
    """Expected loss over the source models, with probability at least 1 - delta (as reconstructed).

    R <= training error + sqrt(2 pi) L G + 3 B_l sqrt(log(2/delta) / (2 N)) .

    The uniform deviation of a loss in [0, B_l] is at most twice its Rademacher complexity plus the
    last term (Bartlett, Mendelson 2002); sqrt(pi/2) times the Gaussian complexity bounds the
    Rademacher one, and L contracts the loss. In print the root holds log(delta/2), which is negative.
    The proof uses two deviations, of the trained and of the best network: each gets half of delta.

    With T source models and N_t samples of each, 1/N is the mean of 1/N_t over the models, by T: one
    sample of model t moves the mean loss by B_l / (T N_t).

    Args:
        complexity: :func:`gaussian_complexity` of the networks on the samples.
        samples: N, or N_t of every source model.
        delta: probability that the bound fails, 0..1; split between the two deviations.
        largest_loss: B_l; ``lipschitz_loss``: L, of the loss as a function of the network's output.
    """
    if not 0 < delta < 1:
        raise BadOption(f"delta is a probability between 0 and 1, not {delta}")
    counts = (samples,) if isinstance(samples, int) else tuple(samples)
    if not counts or min(counts) < 1:
        raise BadOption(f"there must be at least one sample, not {samples}")
    share = sum(1.0 / n for n in counts) / len(counts) ** 2
    # The union bound: log(2 / (delta/2)).
    deviation = 3.0 * largest_loss * math.sqrt(math.log(4.0 / delta) / 2.0 * share)
    return training_error + math.sqrt(2.0 * math.pi) * lipschitz_loss * complexity + deviation


def generalisation_bound(source_bound: float, mean_divergence: float) -> float:
    """Expected loss of the target models: R_T <= R_S + E U(x, y).

    R_S is :func:`training_bound` or a measured loss, E U the mean of :func:`divergence` over images.
    """
    return source_bound + mean_divergence
