"""The texts that a language model writes after prompts, drawn token by token."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase

from rapt.synthesis.base import Synthesizer
from rapt.tuning.backbones import most_tokens
from rapt.tuning.inputs import Split
from rapt.tuning.model import TaskModel, Writer, adapt, load_backbone, placed
from rapt.tuning.tuners import Tuner, Untuned
from rapt.tuning.writing import tokenized, write
from rapt.utils.errors import RaptError

WHOLE = 1 << 20  # tokens of a prompt, none of which is cut


class Author:
    """A language model, as it is or with a fresh adapter.

    Attributes:
        model: on the device.
        tokenizer: its tokenizer.
    """

    model: TaskModel
    tokenizer: PreTrainedTokenizerBase

    def __init__(self, how: Synthesizer, folder: Path, tuner: Tuner | None = None) -> None:
        """Load the model, and adapt it for a tuner.

        Raises:
            RaptError: it is no causal language model, or the tuner does not suit it.
        """
        self.how, tuner = how, tuner or Untuned()
        frozen = None if tuner.learns == "backbone" else how.precision
        backbone, self.tokenizer = load_backbone(
            folder, getattr(tuner, "quantize", None), frozen, writes=True, causal=True
        )
        self.model = placed(Writer(adapt(backbone, tuner), how.precision))

    def read(self, prompts: Sequence[str], texts: Sequence[str] | None = None) -> Split:
        """Tokenize prompts, and the text that follows each, if there is one."""
        halves = zip(prompts, texts or [""] * len(prompts), strict=True)
        columns: dict[str, list[Any]] = {
            "words": [[prompt, text] for prompt, text in halves],
            "segment": [[0, 1]] * len(prompts),
            "space_after": [[False, False]] * len(prompts),
        }
        split = tokenized(columns, self.tokenizer, WHOLE, chat=self.how.sampling.chat)
        room = most_tokens(self.model.backbone)
        after = 0 if texts else self.how.sampling.max_new_tokens
        longest = max(split.lengths, default=0) + after
        if room is not None and longest > room:
            raise RaptError(
                f"prompt: got one that takes {longest} tokens with its text, expected at most "
                f"{room}, which the model has. Shorten it, or lower max_new_tokens."
            )
        return split

    def write(self, prompts: Sequence[str]) -> list[str]:
        """Return the text that is drawn after each prompt, one line."""
        if not prompts:
            return []
        split = self.read(prompts)
        return write(self.model, split, self.tokenizer, self.how.sampling, self.how.at_once).texts
