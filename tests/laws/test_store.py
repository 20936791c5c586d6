"""Network files: what is saved comes back, what is damaged is refused, nothing is executed."""

from __future__ import annotations

import hashlib
import io
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

import hyperdlw
from hyperdlw.errors import BadFile, BadModel, BadOption, OutputExists
from hyperdlw.networks import files as store
from hyperdlw.networks.dlwnet import DLWnet2d, DLWnet3d, Network

NETS = [DLWnet3d(4, 2), DLWnet3d(), DLWnet2d(3, 4, 3)]


def write(path: Path, net: Network, card: dict[str, Any] | None, **changes: Any) -> Path:
    """A model file made by hand, with some tensors replaced (or dropped, for None)."""
    tensors = {k: v.clone() for k, v in net.state_dict().items()} | changes
    metadata = None if card is None else {"card": json.dumps(card)}
    save_file({k: v for k, v in tensors.items() if v is not None}, path, metadata=metadata)
    return path


@pytest.fixture
def small() -> DLWnet3d:
    return DLWnet3d(2, 1)


@pytest.mark.parametrize("net", NETS, ids=lambda n: str(sorted(n.config.items())))
def test_round_trip(tmp_path: Path, net: Network) -> None:
    path = tmp_path / "a.safetensors"
    store.save_network(path, net, {"name": "a", "epochs": 3})
    back = store.load_network(path)
    assert back.card == {"name": "a", "epochs": 3, **net.config}
    assert back.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert not any(p.requires_grad for p in back.net.parameters())
    y = torch.rand(3, 5, 6)
    assert torch.equal(back.net(y), net.requires_grad_(False)(y))


def test_the_same_network_is_the_same_file(tmp_path: Path, small: DLWnet3d) -> None:
    for name in ("a", "b"):
        store.save_network(tmp_path / f"{name}.safetensors", small, {"name": "same", "a": 1})
    a, b = (store.load_network(tmp_path / f"{name}.safetensors") for name in ("a", "b"))
    assert a.sha256 == b.sha256
    store.save_network(tmp_path / "c.safetensors", small, {"name": "other", "a": 1})
    assert store.load_network(tmp_path / "c.safetensors").sha256 != a.sha256


def test_nothing_is_overwritten_unasked(tmp_path: Path, small: DLWnet3d) -> None:
    path = tmp_path / "a.safetensors"
    store.save_network(path, small, {})
    before = path.read_bytes()
    with pytest.raises(OutputExists):
        store.save_network(path, DLWnet3d(3, 1), {})
    assert path.read_bytes() == before
    store.save_network(path, DLWnet3d(3, 1), {}, overwrite=True)
    assert store.load_network(path).card["filters"] == 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"last.bias": torch.zeros(2)}, "last.bias has shape"),
        ({"last.bias": torch.full((1,), torch.nan)}, "NaN"),
        ({"last.bias": torch.full((1,), torch.inf)}, "NaN or infinite"),
        ({"last.bias": torch.zeros(1, dtype=torch.float64)}, "float64"),
        ({"last.bias": None}, "missing.*last.bias"),
        ({"more": torch.zeros(1)}, "not expected.*more"),
    ],
)
def test_tensors_must_fit(
    tmp_path: Path, small: DLWnet3d, changes: dict[str, Any], message: str
) -> None:
    path = write(tmp_path / "a.safetensors", small, small.config, **changes)
    with pytest.raises(BadModel, match=message):
        store.load_network(path)


@pytest.mark.parametrize(
    ("card", "message"),
    [
        (None, "no card"),
        ([], "architecture"),
        ({}, "architecture"),
        ({"architecture": 3}, "architecture"),
        ({"architecture": "resnet"}, "unknown architecture 'resnet'"),
        ({"architecture": "dlwnet3d", "filters": 0}, "impossible sizes"),
        ({"architecture": "dlwnet3d", "filters": 10**9}, "impossible sizes"),
        ({"architecture": "dlwnet3d", "filters": "2"}, "impossible sizes"),
        ({"architecture": "dlwnet3d", "layers": 3}, "does not fit"),
        ({"architecture": "dlwnet3d", "filters": 3, "blocks": 1}, "shape"),
        ({"architecture": "dlwnet2d"}, "missing"),
    ],
)
def test_cards_must_fit(tmp_path: Path, small: DLWnet3d, card: Any, message: str) -> None:
    path = write(tmp_path / "a.safetensors", small, card)
    with pytest.raises(BadModel, match=message):
        store.load_network(path)


def test_a_card_must_be_json(tmp_path: Path, small: DLWnet3d) -> None:
    path = tmp_path / "a.safetensors"
    save_file(small.state_dict(), path, metadata={"card": "{"})
    with pytest.raises(BadModel, match="not JSON"):
        store.load_network(path)


@pytest.mark.parametrize("keep", [0, 1, 7, 8, 100, -1])
def test_truncated(tmp_path: Path, small: DLWnet3d, keep: int) -> None:
    path = tmp_path / "a.safetensors"
    store.save_network(path, small, {})
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(BadModel, match="not a readable hyperdlw model"):
        store.load_network(path)


def test_too_large_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    with path.open("wb") as file:
        file.truncate(store.LARGEST + 1)
    for read in (store.load_network, store.import_checkpoint):
        with pytest.raises(BadModel, match="bytes"):
            read(path)


def test_not_there(tmp_path: Path) -> None:
    for read in (store.load_network, store.import_checkpoint):
        with pytest.raises(BadFile, match=r"nowhere\.safetensors"):
            read(tmp_path / "nowhere.safetensors")
    with pytest.raises(BadOption, match="no network 'nowhere'"):
        store.load_network("nowhere")


class Bomb:
    """Unpickling this object creates a file."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.marker,)


def arm(kind: str, path: Path, marker: Path) -> None:
    if kind == "torch zip":
        torch.save({"model_state_dict": Bomb(marker)}, path)
    elif kind == "torch legacy":
        torch.save({"model_state_dict": Bomb(marker)}, path, _use_new_zipfile_serialization=False)
    else:
        path.write_bytes(pickle.dumps(Bomb(marker), protocol=int(kind[-1])))


KINDS = ["pickle 0", "pickle 1", "pickle 2", "pickle 5", "torch zip", "torch legacy"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ending", ["safetensors", "pth"])
@pytest.mark.parametrize(
    "read", [store.load_network, store.import_checkpoint], ids=["load", "import"]
)
def test_pickles_are_refused_and_not_executed(
    tmp_path: Path, kind: str, ending: str, read: Any
) -> None:
    path, marker = tmp_path / f"model.{ending}", tmp_path / "executed"
    arm(kind, path, marker)
    with pytest.raises(BadModel):
        read(path)
    assert not marker.exists()
    # The bomb is real: an ordinary reader sets it off.
    if kind.startswith("torch"):
        torch.load(io.BytesIO(path.read_bytes()), weights_only=False)
    else:
        pickle.loads(path.read_bytes())
    assert marker.exists()


def foreign(net: DLWnet3d) -> dict[str, torch.Tensor]:
    """The tensors of a network under the names of the published checkpoints."""
    out = {"conv_last.weight": net.last.weight, "conv_last.bias": net.last.bias}
    for i, key in enumerate(store.FOREIGN_KEYS):
        layer = (net.spectrum if i % 2 else net.space)[i // 2]
        out[f"{key}.bias"] = layer.bias
        out[f"{key}.weight"] = layer.weight.unsqueeze(-1 if i % 2 else 2)
    return {k: v.detach().clone() for k, v in out.items()}


def test_import_then_save_then_load(tmp_path: Path) -> None:
    net, path = DLWnet3d(), tmp_path / "released.pth"
    torch.save({"model_state_dict": foreign(net), "epoch": 10}, path)
    got, card = store.import_checkpoint(path)
    assert card == {"name": "released", "imported_from": "released.pth"}
    store.save_network(tmp_path / "own.safetensors", got, card)
    y = torch.rand(4, 6, 5)
    own = store.load_network(tmp_path / "own.safetensors").net
    assert torch.equal(own(y), net.requires_grad_(False)(y))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"model_state_dict": {"conv1.weight": torch.zeros(1)}}, "missing"),
        ({"model_state_dict": {1: torch.zeros(1), "a": torch.zeros(1)}}, "missing"),
        ({"model_state_dict": [1, 2]}, "no table of tensors"),
        ({"model_state_dict": {"conv1.weight": "text"}}, "no table of tensors"),
        ([1, 2, 3], "missing|no table"),
    ],
)
def test_foreign_checkpoints_must_fit(tmp_path: Path, content: Any, message: str) -> None:
    path = tmp_path / "a.pth"
    torch.save(content, path)
    with pytest.raises(BadModel, match=message):
        store.import_checkpoint(path)


def test_foreign_checkpoint_with_nan(tmp_path: Path) -> None:
    tensors = foreign(DLWnet3d())
    tensors["conv2.bias"][3] = torch.nan
    torch.save({"model_state_dict": tensors}, tmp_path / "a.pth")
    with pytest.raises(BadModel, match=r"conv2\.bias holds NaN"):
        store.import_checkpoint(tmp_path / "a.pth")


def test_a_header_of_any_length_is_read(tmp_path: Path) -> None:
    """The first byte of the file is the length of the header modulo 256, and 128 opens a pickle too."""
    net = DLWnet3d(filters=2)
    first = set()
    for extra in range(0, 300, 4):  # headers are padded to multiples of eight
        path = tmp_path / f"{extra}.safetensors"
        store.save_network(path, net, {"name": "x" * extra})
        first.add(path.read_bytes()[0])
        assert store.load_network(path).card["name"] == "x" * extra
    assert 0x80 in first


def test_a_card_of_the_time_when_the_package_was_called_dlw(tmp_path: Path) -> None:
    """Nothing in a card names the package that may read it; keys of before are kept as they are."""
    card = {
        "name": "old",
        "version": "0.1.0.dev0",
        "versions": {"dlw": "0.1.0", "torch": "2.9"},
        "made_by": "dlw train recipes/first/N.toml",
        "recipe": {"start": "dlw:N"},
    }
    net = DLWnet3d(2, 1)
    path = write(tmp_path / "old.safetensors", net, {**card, **net.config})
    stored = store.load_network(path)
    assert stored.card == {**card, **net.config}
    y = torch.rand(3, 5, 4)
    assert torch.equal(stored.net(y), net.requires_grad_(False)(y))
    found = hyperdlw.denoise(y.numpy(), model="tv", weights=str(path))
    assert list(found.report.networks.values()) == [stored.sha256]
