"""The papers' names for an experiment's models and tuners, and what their studies vary."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rapt.params import Method, Params

MODELS = {"meta-llama-3-8b": "llama3-8b", "mistral-7b-v0.1": "mistral-7b"}


def model_name(model: str) -> str:
    """Return the papers' name of a model of params.yaml, if they have one."""
    name = model.partition("@")[0].rpartition("/")[-1].lower()
    return MODELS.get(name, name)


def backbone_name(params: Params, name: str) -> str:
    """Return the papers' name of a backbone of params.yaml."""
    backbone = params.backbones[name]
    return "bilstm" if backbone.encoder else model_name(backbone.model)


def embedding_name(params: Params, name: str) -> str:
    """Return the papers' name of an embedding model of params.yaml."""
    return model_name(params.embeddings[name].model)


def tuner_name(params: Params, name: str) -> str:
    """Return the papers' name of a tuner of params.yaml."""
    tuner = params.tuners[name]
    if tuner.type == "lora" and tuner.quantize:
        return "qlora"
    return tuner.type.removesuffix("-tuning")


def attack_name(params: Params, name: str) -> str:
    """Return the papers' name of an attack of params.yaml."""
    return params.attacks[name].type


NAMES: dict[str, Callable[[Params, str], str]] = {
    "attack": attack_name,
    "backbone": backbone_name,
    "tuner": tuner_name,
}


def _embedding(params: Params, factors: Mapping[str, str]) -> str:
    return factors["embedding"]


def _prefix_length(params: Params, factors: Mapping[str, str]) -> str | None:
    tuner = params.tuners[factors["tuner"]]
    of_rapt = _objective(params, factors) == "rapt"
    return str(tuner.tokens) if tuner.type == "prefix-tuning" and of_rapt else None


def _choice(params: Params, factors: Mapping[str, str]) -> str | None:
    plain = _method(params, factors).plain_tokens
    return plain.choice if plain else None


def _objective(params: Params, factors: Mapping[str, str]) -> str | None:
    """Return the row of RAPT's Table VIII, a variant of RAPT, that a method is."""
    method = _method(params, factors)
    if not method.categories:
        return None
    if method.reconstruction:
        return "rapt"
    return "without_reconstruction" if method.plain_tokens else "without_plain_tokens"


def _plain_length(params: Params, factors: Mapping[str, str]) -> str | None:
    """Return the number of reconstructed plain tokens: 0 for PCT2T."""
    variant, plain = _objective(params, factors), _method(params, factors).plain_tokens
    if variant == "without_plain_tokens":
        return "0"
    return str(plain.length) if variant == "rapt" and plain else None


def _method(params: Params, factors: Mapping[str, str]) -> Method:
    return params.method(factors["method"])


# What a study varies: the setting of a cell, by its factors; None: the cell is not part of it.
SETTINGS: dict[str, Callable[[Params, Mapping[str, str]], str | None]] = {
    "embedding": _embedding,
    "prefix-length": _prefix_length,
    "choice": _choice,
    "objective": _objective,
    "plain-length": _plain_length,
}
