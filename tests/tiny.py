"""Tiny random BERTs."""

from pathlib import Path

import torch
from transformers import AutoConfig, AutoTokenizer, BertConfig, BertModel, PreTrainedTokenizerBase


def bert(folder: Path, tokenizer: PreTrainedTokenizerBase, positions: int = 64) -> Path:
    """Write a BERT of two layers for a tokenizer, and the tokenizer beside it."""
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=positions,
    )
    BertModel(config, add_pooling_layer=False).save_pretrained(folder)
    return folder


def of_width(width: int, backbone: Path, folder: Path) -> None:
    """Write a backbone like another, for vectors of this width."""
    config = AutoConfig.from_pretrained(backbone, hidden_size=width)
    BertModel(config, add_pooling_layer=False).save_pretrained(folder)
    AutoTokenizer.from_pretrained(backbone).save_pretrained(folder)
