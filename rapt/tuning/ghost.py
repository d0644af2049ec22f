"""Ghost clipping: the norm of each text's gradient, and their weighted sum, without any of them.

A matrix W that reads a_t at position t of a text has the gradient Σ_t g_t a_tᵀ, where g_t is the
gradient of W a_t. Its squared norm needs products of vectors alone (Li et al., 2022, section 4):

    ‖Σ_t g_t a_tᵀ‖² = Σ_t Σ_u ⟨a_t, a_u⟩ ⟨g_t, g_u⟩

An embedding has 1 for ⟨a_t, a_u⟩ where both tokens are the same, else 0. A bias or a norm's weights
are a vector, whose gradient is small enough to keep for each text. The sum of the clipped gradients
comes from the same a and g (book-keeping, Bu et al., 2023), so one backward pass suffices.

All of this rests on layers that read each text of a batch by itself, once. `proved` tries it on
random tokens before a training begins, and compares it with plain gradients of single texts.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.utils import get_total_norm
from transformers.pytorch_utils import Conv1D

from rapt.tuning import backbones
from rapt.tuning.gradients import finest
from rapt.tuning.inputs import Split, collate, pooled
from rapt.tuning.model import Pooled
from rapt.utils.errors import RaptError, described

if TYPE_CHECKING:
    from rapt.tuning.trainer import Trainer

MATRICES = (nn.Linear, Conv1D, nn.Embedding)  # these alone: a subclass may compute otherwise
LENGTHS = (5, 11, 8)  # of the random texts, in tokens
RELATIVE, ABSOLUTE = 1e-3, 1e-4  # errors allowed: of a value, and of the largest one


class Ghost:
    """Hooks that keep what each layer of a model reads and returns, until `read`."""

    def __init__(self, parts: nn.Module) -> None:
        """Add the hooks.

        Raises:
            RaptError: a weight that learns is of a layer that is not known, or of several.
        """
        self._texts, self._calls = 0, list[tuple[nn.Module, Tensor, Tensor]]()
        self._hooks, seen = list[Any](), set[nn.Parameter]()
        for name, layer in parts.named_modules():
            own = {weight for weight in layer.parameters(recurse=False) if weight.requires_grad}
            is_norm = all(w.ndim == 1 for w in own) and not [*layer.children(), *layer.buffers()]
            known = not own or is_norm or type(layer) in MATRICES
            if not known or own & seen or isinstance(layer, _BatchNorm):
                raise RaptError(
                    f"private: got weights of {name} ({type(layer).__name__}), expected those of "
                    "linear layers, embeddings and norms that share none."
                )
            seen |= own
            if own:
                self._hooks.append(layer.register_forward_hook(self._keep))
            if own and isinstance(layer, nn.Embedding):
                self._hooks.append(layer.register_forward_pre_hook(self._widen))

    def remove(self) -> None:
        """Take the hooks away."""
        for hook in self._hooks:
            hook.remove()

    def begin(self, texts: int) -> None:
        """Keep what layers do in the forward pass of so many texts, which is next."""
        self._texts, self._calls = texts, []

    def _widen(self, _: nn.Module, given: tuple[Tensor, ...]) -> Tensor | None:
        """Look up positions for each text, where one lookup is for all: each has its gradient."""
        (ids,) = given
        return ids.expand(self._texts, *ids.shape[1:]) if len(ids) == 1 < self._texts else None

    def _keep(self, layer: nn.Module, given: tuple[Tensor, ...], output: Tensor) -> None:
        if self._texts and output.requires_grad:
            self._calls.append((layer, given[0].detach(), output))

    def read(self, loss: Tensor) -> OfTexts:
        """Compute what single texts' gradients need, from the mean loss of the texts.

        Raises:
            RaptError: a layer read something other than each text by itself, once.
        """
        calls, texts = self._calls, self._texts
        self.begin(0)
        outputs = [output for *_, output in calls]
        found = torch.autograd.grad(texts * loss, outputs, allow_unused=True)
        uses = dict[nn.Module, tuple[Tensor, Tensor]]()
        for (layer, given, _), gradient in zip(calls, found, strict=True):
            if gradient is None:
                continue
            if layer in uses or not len(given) == len(gradient) == texts:
                raise RaptError(
                    f"private: got a {type(layer).__name__} that reads {tuple(given.shape)} of "
                    f"{texts} texts, expected one that reads each text by itself, once."
                )
            uses[layer] = given, gradient
        return OfTexts(uses)


class OfTexts:
    """The gradients of n texts, as far as they are computed.

    Attributes:
        squares: of their norms, float64 (n,).
    """

    def __init__(self, uses: dict[nn.Module, tuple[Tensor, Tensor]]) -> None:
        """Take what each layer read (n, …), and the gradients of what it returned (n, …)."""
        self._vectors = dict[Any, Tensor]()  # of each text, (n, size)
        self._matrices = list[tuple[Any, Tensor, Tensor]]()
        for layer, (read, gradient) in uses.items():
            if type(layer) not in MATRICES:
                self._vectors |= _of_vectors(layer, read, gradient)
                continue
            # A head that reads a text's mean has one position.
            gradient = gradient.reshape(len(gradient), -1, gradient.shape[-1]).float()
            if isinstance(layer, nn.Embedding):
                read = read.flatten(1)
                if layer.padding_idx is not None:  # whose row never learns
                    gradient = gradient.masked_fill((read == layer.padding_idx)[..., None], 0.0)
            else:
                read = read.reshape(len(read), -1, read.shape[-1]).float()
                if layer.bias is not None:
                    self._vectors[layer.bias] = gradient.sum(1)
            self._matrices.append((layer, read, gradient))
        squares = [_squares(*matrix) for matrix in self._matrices]
        squares += [each.to(finest(each.device)).square().sum(1) for each in self._vectors.values()]
        self.squares = torch.stack(squares).sum(0)

    def weighted(self, scales: Tensor) -> dict[Any, Tensor]:
        """Sum the gradients times these factors (n,), for each weight that has any."""
        sums = {w: scales.to(each) @ each for w, each in self._vectors.items()}
        for layer, read, gradient in self._matrices:
            rows = (scales.to(gradient)[:, None, None] * gradient).flatten(0, 1)
            if isinstance(layer, nn.Embedding):
                total = torch.zeros_like(layer.weight).index_add_(0, read.flatten(), rows)
            else:
                total = rows.mT @ read.flatten(0, 1)
            sums[layer.weight] = total.mT if isinstance(layer, Conv1D) else total
        return sums


def _squares(layer: nn.Module, read: Tensor, gradient: Tensor) -> Tensor:
    """Compute the squared norms of a matrix's gradients, float64 (n,), the cheaper way."""
    if isinstance(layer, nn.Embedding):
        products = (gradient @ gradient.mT) * (read[:, :, None] == read[:, None])
    elif read.shape[1] * (read.shape[2] + gradient.shape[2]) > read.shape[2] * gradient.shape[2]:
        products = (gradient.mT @ read).square()  # of long texts, no larger than these
    else:
        products = (gradient @ gradient.mT) * (read @ read.mT)
    return products.to(finest(products.device)).sum((1, 2)).clamp(min=0.0)


def _of_vectors(layer: nn.Module, read: Tensor, gradient: Tensor) -> dict[Any, Tensor]:
    """Compute the gradients of a layer's vectors, (n, size) of each, by running it again."""
    own: dict[str, Any] = dict(layer.named_parameters())

    def along(weights: dict[str, Tensor], one: Tensor, of_output: Tensor) -> Tensor:
        output: Tensor = functional_call(layer, weights, (one[None],))
        return (output * of_output).sum()

    found = vmap(grad(along), in_dims=(None, 0, 0))(own, read.float(), gradient.float())
    return {own[name]: each for name, each in found.items()}


def proved(trainer: Trainer) -> Ghost | None:
    """Return hooks on a trainer's model that tell texts apart; None: they cannot, as it prints."""
    ghost, was_training = None, trainer.parts.training
    trainer.parts.eval()
    try:
        ghost = Ghost(trainer.parts)
        _compare(ghost, trainer)
    except Exception as error:  # whatever it is, one by one is right
        if ghost:
            ghost.remove()
        line = f"{trainer.run.cell}: private training takes one text at a time. {described(error)}"
        print(line, file=sys.stderr)
        return None
    finally:
        trainer.parts.train(was_training)
    return ghost


def _compare(ghost: Ghost, trainer: Trainer) -> None:
    """Compare each random text's gradient and norm in a batch with those of a plain one of it.

    Raises:
        RaptError: they differ.
    """
    model = trainer.model
    if not isinstance(model, Pooled):
        raise RaptError(f"private: got a {type(model).__name__}, expected a head on a mean.")
    generator = torch.Generator().manual_seed(0)
    words: Any = model.backbone.get_input_embeddings()
    tokens = [torch.randint(len(words.weight), (n,), generator=generator).tolist() for n in LENGTHS]
    split = Split.of_lists(tokens, text=[[True] * n for n in LENGTHS])

    def loss(rows: list[int]) -> Tensor:
        batch = collate(split, rows, trainer.pad).to(trainer.device)
        activations = backbones.activations(model.backbone, batch)  # in float32
        along = torch.linspace(-1, 1, model.width, device=trainer.device)  # if the head is 0
        answers = model.scores(activations, batch).flatten(1).sum(1)
        return (answers + pooled(activations, batch.text) @ along).mean()

    rows, learning = [*range(len(tokens))], trainer.learning()
    ghost.begin(len(rows))
    found = ghost.read(loss(rows))
    for row, choice in zip(rows, torch.eye(len(rows), device=trainer.device), strict=True):
        alone = torch.autograd.grad(loss([row]), [*learning.values()], allow_unused=True)
        plain = {name: g for name, g in zip(learning, alone, strict=True) if g is not None}
        norm, own = get_total_norm(plain.values()), found.weighted(choice)
        largest = max(float(gradient.abs().max()) for gradient in plain.values())
        others = [
            name
            for name, gradient in plain.items()
            if (seen := own.get(learning[name])) is None
            or not seen.allclose(gradient, RELATIVE, ABSOLUTE * largest)
        ]
        if others or not found.squares[row].sqrt().float().isclose(norm, RELATIVE):
            raise RaptError(
                f"private: got other gradients of {', '.join(others) or 'a text'} in a batch than "
                "of single texts, expected the same."
            )
