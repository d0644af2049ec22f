"""A federated training in one process.

Clients have the texts of as many authors each where these are known, else equal random shares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rapt.federated import client
from rapt.federated.laws import Law, generator
from rapt.federated.server import Server
from rapt.tuning.checkpoints import Checkpoint, give
from rapt.tuning.inputs import Split
from rapt.tuning.trainer import Trainer
from rapt.utils.errors import RaptError
from rapt.utils.progress import counter


@dataclass(frozen=True)
class Simulation:
    """A federated training of one seed, all of whose draws follow from `secret`."""

    law: Law
    secret: str

    def fit(self, trainer: Trainer, split: Split, checkpoint: Checkpoint) -> dict[str, list[float]]:
        """Train round by round, from the checkpoint on if there is one.

        Returns:
            no curves: a client's losses stay with it.

        Raises:
            RaptError: there are fewer texts, or authors, than clients.
        """
        run, how = trainer.run, self.law.how
        owners = range(len(split)) if split.authors is None else split.authors
        if how.clients > (count := len({*owners})):
            of = "texts" if split.authors is None else "authors"
            raise trainer.failed(
                0,
                f"federated.clients: got {how.clients} for {count} {of}, expected at most one for "
                "each.",
            )
        shares = self.shares(owners)
        server = Server(self.law, client.learned(trainer), self.secret)
        if saved := checkpoint.load():
            server.resume(*saved)
        with counter(f"seed {run.k}", how.rounds, "round", line=run.k) as progress:
            progress.update(server.round)
            while not server.ended:
                for number in server.drawn():
                    where = f"{run.cell}, round {server.round + 1}, client {number}"
                    trainer.run = replace(client.local(run, how), cell=where)
                    seed = generator(self.secret, "steps", server.round, number).integers(2**63)
                    rows = split.of(shares[number])
                    change = client.update(trainer, rows, server.weights, int(seed))
                    try:
                        server.take(number, server.round, change)
                    except RaptError as error:
                        line = f"{run.cell}, seed {run.k}: {error}"
                        raise RaptError(line) from None
                server.close()
                checkpoint.save(*server.state())
                progress.update()
        trainer.run = run
        give(trainer.learning(), server.weights)
        trainer.steps = how.rounds
        return {}

    def shares(self, owners: Sequence[int]) -> list[list[int]]:
        """Return the rows of each client: all those of its owners."""
        every, owner = np.unique(owners, return_inverse=True)
        order = generator(self.secret, "shares").permutation(len(every))
        groups = np.array_split(order, self.law.how.clients)
        return [np.flatnonzero(np.isin(owner, own)).tolist() for own in groups]

    def statement(self) -> dict[str, float]:
        """Return what is spent on one client; see `Law.statement`."""
        return self.law.statement()
