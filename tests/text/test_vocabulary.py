"""Which tokens of a vocabulary are words, and which may stand in a release at all."""

from typing import Any

from tokenizers import Tokenizer, decoders
from tokenizers import models as tokenizer_models

from rapt.text.vocabulary import candidates, proper


def test_byte_level_and_sentencepiece_vocabularies() -> None:
    def vocabulary(tokens: list[str], decoder: Any) -> Tokenizer:
        made = Tokenizer(tokenizer_models.BPE({token: i for i, token in enumerate(tokens)}, []))
        made.decoder = decoder
        made.add_special_tokens(tokens[:1])
        return made

    byte_level = vocabulary(["Ġ<s>", "Ġfilm", "ing", "Ġ", "Ġ7"], decoders.ByteLevel())
    assert candidates(byte_level) == {"film": 1, "7": 4}
    sentencepiece = vocabulary(["<s>", "▁the", "s", "▁The"], decoders.Metaspace())
    assert candidates(sentencepiece) == {"the": 1, "The": 3}


def test_no_vocabulary_gives_special_or_unused_tokens() -> None:
    """MPNet lists <unk> beside [UNK]; of none of these a tokenizer says that they are special."""
    special = ["<s>", "</s>", "<pad>", "<unk>", "[MASK]", "[unused1]", "<|endoftext|>"]

    def of(model: Any, words: list[str], **how: Any) -> list[str]:
        vocabulary = {token: i for i, token in enumerate([*special, *words])}
        return list(candidates(Tokenizer(model(vocabulary, **how))))

    assert of(tokenizer_models.WordPiece, ["the", "##s", "[UNK]"], unk_token="[UNK]") == ["the"]
    assert of(tokenizer_models.WordLevel, ["the", "7"], unk_token="[UNK]") == ["the", "7"]
    for marker in "Ġ▁":
        made = Tokenizer(
            tokenizer_models.BPE(
                {
                    token: i
                    for i, token in enumerate([*(marker + s for s in special), marker + "the"])
                },
                [],
            )
        )
        made.decoder = decoders.ByteLevel() if marker == "Ġ" else decoders.Metaspace()
        assert list(candidates(made)) == ["the"]


def test_pieces_of_words_are_tokens_of_their_own() -> None:
    vocabulary = {token: i for i, token in enumerate(["[UNK]", "[unused1]", "the", "##s", "▁"])}
    made = Tokenizer(tokenizer_models.WordPiece(vocabulary, unk_token="[UNK]"))
    assert proper(made) == {"the": 2, "##s": 3, "▁": 4}
    assert list(candidates(made)) == ["the", "▁"]
