"""A small tokenizer of each family, on the words that the tests' releases have."""

import transformers as hf
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)

WORDS = ["good", "bad", "film", "plot", "very", "so", "likely"]
PIECES = ["un", "like", "ly"]  # "unlikely" is three tokens everywhere


def of_words(
    words: list[str], cls: str = "[CLS]", sep: str = "[SEP]", segments: bool = True
) -> hf.PreTrainedTokenizerFast:
    """BERT's; without segments MPNet's, which parts a pair as RoBERTa does."""
    made = Tokenizer(models.WordPiece({w: i for i, w in enumerate(words)}, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    around = processors.BertProcessing if segments else processors.RobertaProcessing
    made.post_processor = around((sep, words.index(sep)), (cls, words.index(cls)))
    names = {"cls_token": cls, "sep_token": sep, "pad_token": "[PAD]", "unk_token": "[UNK]"}
    names |= {"mask_token": "[MASK]"} if "[MASK]" in words else {}
    inputs = ["input_ids", *["token_type_ids"] * segments, "attention_mask"]
    return hf.PreTrainedTokenizerFast(tokenizer_object=made, model_input_names=inputs, **names)


def word_pieces(cls: str, sep: str, segments: bool) -> hf.PreTrainedTokenizerFast:
    special = [cls, "[PAD]", sep, "[UNK]"]  # padding is 1, as in RoBERTa and MPNet
    words = [*special, *WORDS, *PIECES, *(f"##{piece}" for piece in PIECES)]
    return of_words(words, cls, sep, segments)


def bytes_pairs(special: list[str], before_bytes: bool = False) -> Tokenizer:
    """Byte-level BPE; `before_bytes`: with a split before, as Llama 3's and Qwen's."""
    vocabulary = {token: i for i, token in enumerate(special)}
    for letter in sorted(pre_tokenizers.ByteLevel.alphabet()):
        vocabulary[letter] = len(vocabulary)
    merges: list[tuple[str, str]] = []

    def merge(word: str) -> None:
        for end in range(1, len(word)):
            if word[: end + 1] not in vocabulary:
                merges.append((word[:end], word[end]))
                vocabulary[word[: end + 1]] = len(vocabulary)

    for word in (*(f"Ġ{w}" for w in WORDS), "Ġun", "like", "ly"):
        merge(word)
    made = Tokenizer(models.BPE(vocabulary, merges))
    bytes_ = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=not before_bytes)
    split = pre_tokenizers.Split(Regex(r" ?\p{L}+"), "isolated")
    made.pre_tokenizer = pre_tokenizers.Sequence([split, bytes_]) if before_bytes else bytes_
    made.decoder = decoders.ByteLevel()
    return made


def gpt2_tokenizer() -> hf.PreTrainedTokenizerFast:
    end = "<|endoftext|>"
    return hf.PreTrainedTokenizerFast(
        tokenizer_object=bytes_pairs([end]), bos_token=end, eos_token=end, unk_token=end
    )


def roberta_tokenizer() -> hf.PreTrainedTokenizerFast:
    made = bytes_pairs(["<s>", "<pad>", "</s>", "<unk>"])
    made.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    names = {"cls_token": "<s>", "sep_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    return hf.PreTrainedTokenizerFast(tokenizer_object=made, **names)


def qwen_tokenizer() -> hf.PreTrainedTokenizerFast:
    made = bytes_pairs(["<pad>", "<|im_end|>"], before_bytes=True)
    return hf.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", eos_token="<|im_end|>", padding_side="left"
    )


def unigram(special: list[str], single: str, pair: str) -> Tokenizer:
    words = [f"▁{w}" for w in (*WORDS, "un")] + ["like", "ly", "▁", *"abcdefghijklmnopqrstuvwxyz"]
    scored = [(token, 0.0) for token in special] + [
        (word, -1.0 if len(word) > 1 else -9.0) for word in words
    ]
    made = Tokenizer(models.Unigram(scored, unk_id=2))
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Metaspace()
    made.add_special_tokens([AddedToken(token) for token in special])
    made.post_processor = processors.TemplateProcessing(
        single=single, pair=pair, special_tokens=[(token, i) for i, token in enumerate(special)]
    )
    return made


def t5_tokenizer() -> hf.PreTrainedTokenizerFast:
    made = unigram(["<pad>", "</s>", "<unk>"], "$A </s>", "$A </s> $B </s>")
    names = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    return hf.PreTrainedTokenizerFast(tokenizer_object=made, **names)


def llama3_tokenizer() -> hf.PreTrainedTokenizerFast:
    """Glues words together unless they bring their own spaces; no padding token."""
    made = bytes_pairs(["<|begin|>", "<|end|>"], before_bytes=True)
    made.post_processor = processors.TemplateProcessing(
        single="<|begin|> $A",
        pair="<|begin|> $A <|begin|>:1 $B:1",
        special_tokens=[("<|begin|>", 0)],
    )
    return hf.PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token="<|begin|>", eos_token="<|end|>", padding_side="left"
    )


def mistral_tokenizer() -> hf.PreTrainedTokenizerFast:
    """Left padding and no padding token, as Mistral and Llama 2."""
    made = unigram(["<s>", "</s>", "<unk>"], "<s> $A", "<s> $A <s>:1 $B:1")
    names = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    return hf.PreTrainedTokenizerFast(tokenizer_object=made, padding_side="left", **names)
