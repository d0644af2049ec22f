"""A bidirectional LSTM on a model's input embeddings, as in Qu et al. (2021).

It has the format of Transformers, so that it is tuned, saved and served like any other backbone.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

from rapt.tuning.config import BiLstm


class BiLstmConfig(PreTrainedConfig):
    """The shape of a `BiLstmModel`, as in its config.json.

    `hidden_size` is the width of both directions together; dropout is on the input of each layer.
    """

    model_type = "rapt-bilstm"

    vocab_size: int = 30_522
    embedding_size: int = 768
    hidden_size: int = 600
    num_hidden_layers: int = 1
    dropout: float = 0.0


class BiLstmModel(PreTrainedModel):
    """Frozen embeddings and an LSTM over them, which learns.

    The embeddings are frozen so that words keep their places in the space in which privatization
    replaces them by neighbours. Released representations and denoised words are points of that
    space, too. The LSTM's learning rate is 50 times that of a tuned BERT. At this rate the words of
    training texts would soon move away from all others.
    """

    config_class = BiLstmConfig
    config: BiLstmConfig

    def __init__(self, config: BiLstmConfig) -> None:
        """Make fresh weights, including the embeddings."""
        super().__init__(config)
        layers, dropout = config.num_hidden_layers, config.dropout
        self.embeddings = nn.Embedding(config.vocab_size, config.embedding_size)
        self.embeddings.requires_grad_(False)
        self.dropout = nn.Dropout(dropout)
        self.lstm = nn.LSTM(
            config.embedding_size,
            config.hidden_size // 2,
            layers,
            batch_first=True,
            dropout=dropout if layers > 1 else 0.0,  # between layers
            bidirectional=True,
        )
        self.post_init()

    def get_input_embeddings(self) -> nn.Embedding:
        """Return the embeddings, which map tokens to the LSTM's inputs."""
        return self.embeddings

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
    ) -> BaseModelOutput:
        """Compute the activation of each token.

        Args:
            input_ids: int64 (batch, length); None if there are `inputs_embeds`.
            attention_mask: (batch, length), 1 for a text's own tokens, at least one each; the LSTM
                reads only these, at any position. None: all.
            inputs_embeds: float (batch, length, embedding_size), instead of the tokens' own.

        Returns:
            `last_hidden_state`, float (batch, length, hidden_size), is 0 where the mask is 0.
        """
        embedded = self.embeddings(input_ids) if inputs_embeds is None else inputs_embeds
        if attention_mask is None:
            attention_mask = torch.ones(embedded.shape[:2], device=embedded.device)
        order = attention_mask.argsort(dim=1, descending=True, stable=True)[..., None]
        packed = pack_padded_sequence(
            self.dropout(embedded).take_along_dim(order, dim=1),
            attention_mask.sum(1).long().cpu(),
            batch_first=True,
            enforce_sorted=False,
        )
        length = embedded.shape[1]
        states, _ = pad_packed_sequence(self.lstm(packed)[0], True, total_length=length)
        own: Any = states.take_along_dim(order.argsort(dim=1), dim=1)
        return BaseModelOutput(last_hidden_state=own)


def fresh(model: PreTrainedModel, shape: BiLstm) -> BiLstmModel:
    """Build a BiLSTM with fresh weights on the input embeddings of a model."""
    matrix: Any = model.get_input_embeddings().weight
    vocabulary, width = matrix.shape
    made = BiLstmModel(
        BiLstmConfig(
            vocab_size=vocabulary,
            embedding_size=width,
            hidden_size=2 * shape.hidden,
            num_hidden_layers=shape.layers,
            dropout=shape.dropout,
        )
    )
    made.embeddings.weight.data.copy_(matrix)
    return made
