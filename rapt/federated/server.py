"""The server of a federated training: it sums what clients send, and survives its own end.

Which clients a round draws, and its noise, follow from a secret and the round's number. So a server
that is killed in a round draws the same again, and a round's model leaves it only once it is on the
disk. Nobody therefore sees two sums with the same noise.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from rapt.federated.laws import Law, Noise, Weights, check, clipped, generator, norm
from rapt.tuning.checkpoints import DAMAGED, Kept, read
from rapt.tuning.private import followed
from rapt.utils import files
from rapt.utils.errors import RaptError, described


class Server:
    """The weights of all rounds so far, and what the clients of this one have sent.

    Attributes:
        weights: that learn, float32, after the last round.
        round: from 0 on; as many as there are: the training has ended.
        clip: the norm that an update may have in this round.
    """

    def __init__(self, law: Law, weights: Mapping[str, Tensor], secret: str) -> None:
        """Begin with the weights that all clients begin with."""
        self.law, self._secret = law, secret
        self.weights = {name: weights[name].detach().cpu().clone() for name in sorted(weights)}
        self.round, self.clip = 0, law.how.clip
        self._noise = Noise(law, secret, sum(weight.numel() for weight in weights.values()))
        self._updates: dict[int, Weights] = {}  # by client, each scaled
        self._within: dict[int, bool] = {}

    @property
    def ended(self) -> bool:
        """Whether all rounds are done."""
        return self.round == self.law.how.rounds

    def drawn(self) -> list[int]:
        """Return the clients of this round whose updates are still to come."""
        of_round = self.law.drawn(self._secret, self.round)
        return [client for client in of_round if client not in self._updates]

    def take(self, client: int, round_: int, update: Mapping[str, Tensor]) -> None:
        """Count a client's update, once. Whoever sends none is as one whose weights stay.

        Raises:
            RaptError: it came late, was not asked for, or cannot be an update. It counts as none.
        """
        if round_ != self.round:
            raise RaptError(
                f"client {client}: got an update of round {round_ + 1}, expected one of round "
                f"{self.round + 1}. It came late."
            )
        if client not in self.drawn():
            raise RaptError(
                f"client {client}: got an update of round {round_ + 1} that was counted before, or "
                "not asked for, expected none."
            )
        try:
            check(update, self.weights)
        except RaptError as error:
            line = f"client {client}, round {round_ + 1}: {error}"
            raise RaptError(line) from None
        self._within[client] = norm(update) <= self.clip
        self._updates[client] = clipped(dict(update), self.clip)

    def close(self) -> None:
        """End the round: add the noise to the sum, and go on by their share."""
        how, size = self.law.how, self.law.size
        noise, start = torch.from_numpy(self._noise.of(self.round)), 0
        for name, weight in self.weights.items():
            # In the order of the clients' numbers, whoever came first.
            total = self.clip * noise[start : start + weight.numel()].reshape(weight.shape)
            for client in sorted(self._updates):
                total = total + self._updates[client][name]
            self.weights[name] = (weight.double() + how.server_rate / size * total).float()
            start += weight.numel()
        if how.adaptive:
            surplus = sum(0.5 if within else -0.5 for within in self._within.values())
            drawn = generator(self._secret, "count", self.round).standard_normal()
            self.clip = followed(self.clip, (surplus + self.law.counts * drawn) / size + 0.5)
        self.round += 1
        self._updates.clear()
        self._within.clear()

    def state(self) -> Kept:
        """Return what the next round depends on, but for the law and the secret."""
        return self.weights, {"at": {"step": self.round}, "clip": self.clip}

    def resume(self, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        """Go on from what `state` returned."""
        self.weights = {name: tensors[name] for name in self.weights}
        self.round, self.clip = facts["at"]["step"], facts["clip"]


class SavedServer(Server):
    """A server for real use: its state is on the disk after each round, its secret from the system.

    The file holds the secret, by which the noise can be taken off again: only its owner reads it.
    """

    def __init__(self, law: Law, weights: Mapping[str, Tensor], path: Path) -> None:
        """Go on from the file, or begin and write it.

        Raises:
            RaptError: the file is of another training, or damaged.
        """
        self._path, self._law = path, json.dumps(law.how.model_dump(), sort_keys=True)
        saved = _read(path) if path.exists() else None
        super().__init__(law, weights, saved[1]["secret"] if saved else secrets.token_hex(32))
        if saved is None:
            self._write()
            return
        tensors, facts = saved
        if facts["law"] != self._law or _shapes(tensors) != _shapes(self.weights):
            raise RaptError(
                f"{path}: got the state of a training with other parameters, expected that of this "
                "one. Take those parameters, or remove it to begin anew, which spends anew."
            )
        self.resume(tensors, facts)

    def close(self) -> None:
        """End the round, and write it to the disk before anybody sees its weights."""
        super().close()
        self._write()

    def _write(self) -> None:
        tensors, facts = self.state()
        content = json.dumps({**facts, "law": self._law, "secret": self._secret})
        self._path.parent.mkdir(parents=True, exist_ok=True)
        files.write_bytes(self._path, [save(tensors, {"facts": content})], 0o600)
        # Else the state before may come back after a power cut, and its noise be drawn again.
        files.keep_names(self._path.parent)


def _shapes(weights: Mapping[str, Tensor]) -> dict[str, torch.Size]:
    return {name: weight.shape for name, weight in weights.items()}


def _read(path: Path) -> Kept:
    try:
        return read(path)
    except DAMAGED as error:
        raise RaptError(
            f"{path}: got a damaged state ({described(error)}), expected a whole one. Restore it. "
            "To begin anew spends anew."
        ) from None


def encoded(weights: Mapping[str, Tensor]) -> bytes:
    """Return weights or an update as they go over the wire: safetensors."""
    return save({name: weight.contiguous() for name, weight in weights.items()})


def decoded(content: bytes) -> Weights:
    """Return what `encoded` was given.

    Raises:
        RaptError: the bytes are something else.
    """
    try:
        return load(content)
    except (SafetensorError, KeyError, ValueError, TypeError, OverflowError, RuntimeError) as error:
        raise RaptError(f"update: got {described(error)}, expected safetensors.") from None
