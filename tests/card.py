"""A card: this machine's, else one that is none, whose tensors the CPU computes.

As on a real one, two devices do not mix in an operation, and numpy does not read the card.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import safetensors.torch
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from rapt.utils import device as devices

IS_REAL = torch.cuda.is_available()
NAME = "cuda" if IS_REAL else "cpu:1"
CARD = torch.device(NAME)
aten = torch.ops.aten
# What moves tensors between devices, or takes indices or lengths of the CPU's beside the card's.
MOVES = (aten._to_copy.default, aten.copy_.default)
INDEXED = (
    aten.index.Tensor,
    aten.index_put_.default,
    aten.index_put.default,
    aten.lstm.data,
    aten._pack_padded_sequence.default,
    aten._pack_padded_sequence_backward.default,
    aten._pad_packed_sequence.default,
)
MAKERS = (torch.tensor, torch.as_tensor, torch.asarray)


class OnCard(torch.Tensor):
    """A tensor of the card's; `held` is its content, in the CPU's memory."""

    held: torch.Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> OnCard:
        with torch.inference_mode(False):  # views of a tensor that was made before may be wrapped
            made = torch.Tensor._make_wrapper_subclass(
                *(cls, held.shape, held.stride(), held.storage_offset()),
                dtype=held.dtype,
                device=torch.device("meta"),  # for autograd; `device` is asked below
                dispatch_device=True,
            )
        made.held = held
        return made

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, operation: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Compute by the CPU what all lies on the card."""
        return computed(operation, args, kwargs or {})

    def numpy(self, *_: Any, **__: Any) -> Any:
        """Refuse, as a card's tensor does."""
        raise TypeError(f"can't convert {NAME} device type tensor to numpy.")

    __array__ = numpy

    def untyped_storage(self) -> Any:
        """Return where the content is, by which weights that are one are found."""
        return self.held.untyped_storage()

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        """Show the content."""
        return f"OnCard({self.held!r})"

    def tolist(self) -> Any:
        """Copy the numbers."""
        return self.held.tolist()


def computed(operation: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Compute an operation where its tensors lie.

    Raises:
        RuntimeError: they lie on two devices.
    """
    if operation is torch.ops.prim.device.default:
        return CARD
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    on_card = [tensor for tensor in tensors if isinstance(tensor, OnCard)]
    elsewhere = [t for t in tensors if t.ndim and not isinstance(t, OnCard)]
    takes_both = operation in MOVES or (operation in INDEXED and isinstance(args[0], OnCard))
    if on_card and elsewhere and not takes_both:
        raise RuntimeError(
            f"{operation}: Expected all tensors to be on the same device, but found at least two "
            f"devices, {NAME} and cpu!"
        )
    wanted = kwargs.get("device")
    to_card = wanted == CARD if wanted is not None else bool(on_card)
    if operation is aten.copy_.default:
        to_card = isinstance(args[0], OnCard)
    if wanted is not None:
        kwargs = kwargs | {"device": torch.device("cpu") if wanted == CARD else wanted}
    bare = tree_map(lambda leaf: leaf.held if isinstance(leaf, OnCard) else leaf, (args, kwargs))
    found = operation(*bare[0], **bare[1])
    if not to_card:
        return found
    returned = operation._schema.returns
    if on_card and returned and returned[0].alias_info and returned[0].alias_info.is_write:
        return kwargs.get("out", args[0])  # the tensor that it wrote into
    if operation is aten._pack_padded_sequence.default:
        return OnCard(found[0]), found[1]  # how many texts have a token here: the CPU's
    return tree_map(lambda leaf: OnCard(leaf) if isinstance(leaf, torch.Tensor) else leaf, found)


class _Dispatch(TorchDispatchMode):
    """Sees the operations that have no tensor of the card's yet."""

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return computed(operation, args, kwargs or {})


class _Makers(TorchFunctionMode):
    """Makes tensors of Python's numbers, which PyTorch does below any mode, and then moves them."""

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if function in MAKERS and kwargs.get("device") == CARD:
            return function(*args, **kwargs | {"device": "cpu"}).to(CARD)
        return function(*args, **kwargs)


@contextmanager
def card() -> Iterator[None]:
    """Compute on the card whatever asks for the device."""
    if IS_REAL:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("RAPT_DEVICE", NAME)
            yield
        return
    with pytest.MonkeyPatch.context() as patch, _Makers(), _Dispatch():
        patch.setattr(devices, "usable", lambda: [NAME, "cpu"])
        patch.setenv("RAPT_DEVICE", NAME)
        read = safetensors.torch._flatten_as_ptr
        patch.setattr(  # it copies what lies on a real card
            safetensors.torch,
            "_flatten_as_ptr",
            lambda tensors, *rest: read({name: t.cpu() for name, t in tensors.items()}, *rest),
        )
        yield
