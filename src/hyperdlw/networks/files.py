"""Networks on disk: safetensors with a JSON card in the metadata, and nothing that can run code."""

from __future__ import annotations

import hashlib
import io
import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as serialised
from torch import Tensor, nn

from ..errors import BadFile, BadModel, BadOption, unknown_name
from ..io import atomic
from .dlwnet import ARCHITECTURES, DLWnet3d, Network
from .ffdnet import FFDNet
from .hsidcnn import HSIDCNN, HSIDCNN_LAYERS, list_tensors
from .hsidenet import HSIDeNet
from .mapnet import MapNet
from .sert import SERT, VARIANTS, from_released, released_name

SHIPPED = Path(__file__).parent / "pretrained"
SHIPPED_RIVALS = SHIPPED / "rivals"
"""Networks that restore an image by themselves, apart from those that weight it."""
SHIPPED_DENOISERS = SHIPPED / "denoisers"
"""Gaussian denoisers, apart from the networks that give weights."""
ENDINGS = (".safetensors", ".pth", ".pt", ".ckpt", ".pkl")
"""File endings that mean a network; all but the first are refused, with the reason."""
LARGEST = 64 * 2**20
"""Bytes; a weight network is far smaller, and a lying file is refused before it is read."""
LONGEST_HEADER = 2**21

Rival = HSIDCNN | HSIDeNet

RIVALS: dict[str, type[HSIDCNN] | type[HSIDeNet]] = {"hsid-cnn": HSIDCNN, "hsi-denet": HSIDeNet}
"""Architectures that restore an image by themselves."""

DenoiserNet = FFDNet | SERT | MapNet

DENOISERS: dict[str, Callable[..., DenoiserNet]] = {
    "ffdnet": FFDNet,
    "mapnet": MapNet,
    **{name: partial(SERT, variant=name) for name in VARIANTS},
}
"""Architectures of Gaussian denoisers."""

USES = {
    **dict.fromkeys(ARCHITECTURES, "as the weights"),
    **dict.fromkeys(RIVALS, "as the model"),
    **dict.fromkeys(DENOISERS, "with 'pnp'"),
}
"""How a network of every architecture is used."""

SIZES = ("filters", "blocks", "layers", "channels", "neighbours", "coarse", "hints")
"""Arguments of the architectures, as their cards have them."""

Card = dict[str, Any]
"""What is known of a network, ready for JSON: "architecture", its sizes, and how it was trained.

Keys that are not known are kept. So are cards of the time when this package was called dlw."""

N = TypeVar("N", bound=nn.Module)
M = TypeVar("M", bound=nn.Module)
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Stored(Generic[N]):
    """A network with its card and the SHA-256 of its file."""

    net: N
    card: Card
    sha256: str


AnyStored = Stored[Rival] | Stored[DenoiserNet]


def count_parameters(architecture: Callable[..., nn.Module], **sizes: int) -> int:
    """The number of trained parameters of an architecture.

    >>> count_parameters(DLWnet3d)
    113281
    """
    with torch.device("meta"):
        return sum(p.numel() for p in architecture(**sizes).parameters())


def list_networks() -> list[str]:
    """The weight networks inside the package."""
    return sorted(p.stem for p in SHIPPED.glob("*.safetensors"))


def locate_network(name: str | Path) -> Path:
    """The file of a shipped weight network, or the path itself.

    A name with a path separator or a file ending is a path; everything else is looked up in the package.
    """
    text = str(name)
    if text in list_networks():
        return SHIPPED / f"{text}.safetensors"
    path = Path(text)
    if path.suffix in ENDINGS or len(path.parts) > 1 or path.is_file():
        return path
    if text in RIVALS:
        raise BadOption(
            f"'{text}' restores images by itself and gives no weights; use it as the model"
        )
    raise unknown_name("network", text, list_networks())


def save_network(
    path: str | Path, net: Network | Rival | DenoiserNet, card: Card, *, overwrite: bool = False
) -> None:
    """Write a network and its card; the architecture goes into the card by itself."""
    full = {**card, **net.config}
    tensors = {k: v.detach().contiguous() for k, v in _floats(net.state_dict()).items()}
    data = serialised(tensors, metadata={"card": json.dumps(full, sort_keys=True)})
    with atomic(path, overwrite=overwrite) as tmp:
        # save_file would make a file that nobody but its owner can read.
        tmp.write_bytes(data)


def load_network(name: str | Path) -> Stored[Network]:
    """Read a weight network by name or path; every tensor is checked against the card.

    Raises:
        BadModel: the file is a pickle, is damaged, or does not fit its card.
        BadFile: there is no such file.
    """
    return _load(locate_network(name), ARCHITECTURES, "gives no weights")


def load_rival(name: str | Path) -> Stored[Rival]:
    """Read a network that restores images by itself, by path or by the name of its architecture."""
    path = SHIPPED_RIVALS / f"{name}.safetensors" if str(name) in RIVALS else Path(name)
    if str(name) in RIVALS and not path.exists():
        raise BadOption(
            f"no trained network {name} is inside the package; train one with "
            f"'hyperdlw train-rival {name}' and give its file (.safetensors) as the model"
        )
    return _load(path, RIVALS, "cannot restore an image by itself")


def load_denoiser(name: str | Path) -> Stored[DenoiserNet]:
    """Read a Gaussian denoiser, by the name of a shipped one ("gauss") or by path."""
    shipped = SHIPPED_DENOISERS / f"{name}.safetensors"
    path = shipped if Path(name).suffix not in ENDINGS and shipped.is_file() else Path(name)
    return _load(path, DENOISERS, "is no Gaussian denoiser")


def load_sensor(name: str | Path) -> Stored[MapNet] | None:
    """Read what ``hyperdlw adapt`` has written; None where a network of another kind is meant."""
    path = locate_network(name)
    if path.parent == SHIPPED or (known := _read(path)[0].get("sensor")) is None:
        return None
    sane = isinstance(known, dict) and set(known) == {"excess", "coarse"}
    if not sane or not all(type(v) is float and 0 < v < 1e4 for v in known.values()):
        raise BadModel(f"the card of {path} does not tell a sensor (excess, coarse)")
    return _load(path, {"mapnet": MapNet}, "is not adapted to a sensor")


def _load(path: Path, known: Mapping[str, Callable[..., N]], lack: str) -> Stored[N]:
    """One of the ``known`` architectures, filled with tensors that must fit it exactly.

    ``lack`` says why another architecture cannot be used.
    """
    card, tensors, sha256 = _read(path)
    kind = card["architecture"]
    if kind not in USES:
        raise BadModel(f"{path} has the unknown architecture '{kind}' (known: {', '.join(USES)})")
    if kind not in known:
        raise BadModel(f"{path} is a {kind}, which {lack}; use it {USES[kind]}")
    sizes = {k: card[k] for k in SIZES if k in card}
    if not all(type(v) is int and 1 <= v <= 1024 for v in sizes.values()):
        raise BadModel(f"the card of {path} has impossible sizes: {sizes}")
    try:
        with torch.device("meta"):
            expected = _floats(known[kind](**sizes).state_dict())
    except (TypeError, ValueError) as error:
        raise BadModel(
            f"the card of {path} does not fit the architecture {kind}: {error}"
        ) from error
    check_tensors(path, tensors, {k: tuple(v.shape) for k, v in expected.items()})
    net = known[kind](**sizes)
    net.load_state_dict(tensors, strict=False)  # step counters of batch normalisation are not kept
    return Stored(freeze(net), card, sha256)


def freeze(net: M) -> M:
    """The network, ready to be used: no gradients, and statistics that stay as they are."""
    net.eval().requires_grad_(False)
    return net


def _floats(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Without the step counters of batch normalisation, which nothing reads after training."""
    return {k: v for k, v in state.items() if v.is_floating_point()}


def _read(path: Path) -> tuple[Card, dict[str, Tensor], str]:
    """Card, tensors and SHA-256 of a file."""
    data = _read_bytes(path)
    # A safetensors file opens with the length of its header, eight bytes of which the first may be
    # anything, and then the header's brace.
    if data[8:9] != b"{" and (data[:1] == b"\x80" or data[:4] == b"PK\x03\x04"):
        raise BadModel(
            f"{path} is not a hyperdlw model (it is a pickle, which can run code when loaded); "
            "use 'hyperdlw import-weights' on checkpoints you trust"
        )
    length = int.from_bytes(data[:8], "little")
    if LONGEST_HEADER < length <= len(data):
        raise BadModel(f"{path} has a header of {length} bytes; a network has a few thousand")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise BadModel(f"{path} is not a readable hyperdlw model: {error}") from error
    if "card" not in metadata:
        raise BadModel(f"{path} has no card in its metadata; it was not written by hyperdlw")
    try:
        card = json.loads(metadata["card"])
    except ValueError as error:
        raise BadModel(f"the card of {path} is not JSON: {error}") from error
    if not isinstance(card, dict) or not isinstance(card.get("architecture"), str):
        raise BadModel(f"the card of {path} does not name an architecture")
    return card, tensors, hashlib.sha256(data).hexdigest()


def _read_bytes(path: Path) -> bytes:
    """The file, unless it is missing or too large."""
    try:
        size = path.stat().st_size
        if size > LARGEST:
            raise BadModel(f"{path} has {size} bytes; a network has less than {LARGEST}")
        return path.read_bytes()
    except FileNotFoundError as error:
        raise BadFile(
            f"there is no network file {path} (hyperdlw nets lists the shipped ones)"
        ) from error
    except OSError as error:
        raise BadFile(f"cannot read {path}: {error.strerror}") from error


def check_tensors(path: Path, found: dict[str, Tensor], expected: dict[str, Shape]) -> None:
    """Names, shapes, type and finiteness, with the first difference named."""
    missing, extra = sorted(set(expected) - set(found)), sorted(set(found) - set(expected), key=str)
    if missing or extra:
        raise BadModel(f"{path}: tensors missing {missing[:3]}, not expected {extra[:3]}")
    for key, shape in expected.items():
        if tuple(found[key].shape) != shape:
            raise BadModel(f"{path}: {key} has shape {tuple(found[key].shape)}, expected {shape}")
        if found[key].dtype != torch.float32:
            raise BadModel(f"{path}: {key} is of type {found[key].dtype}, expected float32")
        if not bool(torch.isfinite(found[key]).all()):
            raise BadModel(f"{path}: {key} holds NaN or infinite values")


FOREIGN_KEYS = ("conv1", "conv2", "mid_layer.0", "mid_layer.2", "mid_layer.4", "mid_layer.6")
"""Layers of the checkpoints released with the paper: spatial and spectral factors in turn."""


def import_network(
    path: str | Path, name: str | None = None
) -> tuple[DLWnet3d | SERT | HSIDCNN, Card]:
    """A network from a checkpoint of one of the programs we know, by the names of its tensors."""
    if Path(path).suffix == ".caffemodel":
        return import_hsidcnn(path, name)
    tensors = read_checkpoint(path)
    if "conv_first.weight" not in tensors:
        return import_checkpoint(path, name)
    net = from_released(tensors)
    theirs = {k: (released_name(k), tuple(v.shape)) for k, v in net.state_dict().items()}
    return _fill(net, path, tensors, theirs), {**_card(path, name), "kind": "denoiser"}


def import_hsidcnn(path: str | Path, name: str | None = None) -> tuple[HSIDCNN, Card]:
    """HSID-CNN from a Caffe file of its authors, and a card for it."""
    try:
        tensors = list_tensors(_read_bytes(Path(path)))
    except BadModel as error:
        raise BadModel(f"{path} is not a readable Caffe network: {error}") from None
    first = tensors.get("feature3.weight")
    around = first.shape[1] if first is not None and first.dim() == 4 else 24
    net = HSIDCNN(around) if around >= 2 and around % 2 == 0 else HSIDCNN()
    theirs = {}
    for key, value in net.state_dict().items():
        layer, _, kind = key.rpartition(".")
        theirs[key] = f"{HSIDCNN_LAYERS[layer]}.{kind}", tuple(value.shape)
    return _fill(net, path, tensors, theirs), _card(path, name)


def import_checkpoint(path: str | Path, name: str | None = None) -> tuple[DLWnet3d, Card]:
    """A network from a PyTorch checkpoint released with the paper, and a card for it."""
    net = DLWnet3d()
    theirs: dict[str, tuple[str, Shape]] = {}
    for key, value in net.state_dict().items():
        layer, *rest = key.split(".")
        shape = list(value.shape)
        if layer == "last":
            foreign = "conv_last"
        else:
            # Their factors are 3-D convolutions, with a kernel of length one in space or in bands.
            foreign = FOREIGN_KEYS[2 * int(rest[0]) + (layer == "spectrum")]
            if rest[-1] == "weight":
                shape.insert(4 if layer == "spectrum" else 2, 1)
        theirs[key] = f"{foreign}.{rest[-1]}", tuple(shape)
    return _fill(net, path, read_checkpoint(path), theirs), _card(path, name)


def _fill(
    net: M, path: str | Path, tensors: dict[str, Tensor], theirs: dict[str, tuple[str, Shape]]
) -> M:
    """The network with the tensors of a checkpoint; ``theirs`` has their names and shapes there."""
    check_tensors(Path(path), tensors, dict(theirs.values()))
    own = {k: tensors[theirs[k][0]].reshape(v.shape) for k, v in net.state_dict().items()}
    net.load_state_dict(own)
    return freeze(net)


def _card(path: str | Path, name: str | None) -> Card:
    return {"name": name or Path(path).stem, "imported_from": Path(path).name}


def read_checkpoint(path: str | Path) -> dict[str, Tensor]:
    """The table of tensors in a PyTorch checkpoint.

    The file is read with ``weights_only=True``, which refuses everything but tensors.
    """
    data = _read_bytes(Path(path))
    try:
        with warnings.catch_warnings():
            # torch remarks on the protocol of a pickle that it then refuses.
            warnings.simplefilter("ignore", UserWarning)
            state = torch.load(io.BytesIO(data), weights_only=True, map_location="cpu")
    except Exception as error:
        reason = str(error).splitlines()[0][:120]
        raise BadModel(
            f"{path} cannot be read as a checkpoint of plain tensors and was not loaded: {reason}"
        ) from None
    tables = state if isinstance(state, dict) else {}
    tensors = tables.get("model_state_dict", tables.get("net", tables))
    if not isinstance(tensors, dict) or not all(isinstance(t, Tensor) for t in tensors.values()):
        raise BadModel(f"{path} holds no table of tensors under 'model_state_dict'")
    return {str(k).removeprefix("module."): t for k, t in tensors.items()}
