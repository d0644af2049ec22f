"""A bidirectional LSTM on a model's input embeddings: the encoder beside BERT in Qu et al. (2021).

In the format of Transformers, so that it is tuned, saved and served as any other backbone.
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
    """The shape of a `BiLstmModel`, as its config.json holds it.

    Attributes:
        vocab_size: rows of the embedding matrix.
        embedding_size: its columns.
        hidden_size: of an activation, both directions together.
        num_hidden_layers: layers.
        dropout: on the input of each layer.
    """

    model_type = "rapt-bilstm"

    vocab_size: int = 30_522
    embedding_size: int = 768
    hidden_size: int = 600
    num_hidden_layers: int = 1
    dropout: float = 0.0


class BiLstmModel(PreTrainedModel):
    """Embeddings and the LSTM over them, which alone learns.

    The embeddings stay as they are. Privatization moves a word to a neighbour in their space, where
    the two are alike to the LSTM, and what takes an embedding's place (a released representation, a
    denoised word) is a point of that very space. At the LSTM's learning rate, 50 times that of a
    tuned BERT, each word of a training text would soon leave it, and other words would not.
    """

    config_class = BiLstmConfig
    config: BiLstmConfig

    def __init__(self, config: BiLstmConfig) -> None:
        """Make fresh weights, the embeddings' too."""
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
        """What turns tokens into the LSTM's inputs."""
        return self.embeddings

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
    ) -> BaseModelOutput:
        """The activation of each token.

        Args:
            input_ids: int64 (batch, length); None where there are `inputs_embeds`.
            attention_mask: (batch, length), 1 for a text's own tokens, at least one each; the LSTM
                reads these alone, wherever they stand. None: all.
            inputs_embeds: float (batch, length, embedding_size), in place of the tokens' own.

        Returns:
            its `last_hidden_state`, float (batch, length, hidden_size), is 0 where the mask is.
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
    """A BiLSTM with fresh weights on the input embeddings of a model."""
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
