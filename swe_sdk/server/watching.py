"""What may be told about a server's work while it goes on. Metrics listen; without them nobody does."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from swe_sdk.model.outcome import Outcome


class Watcher:
    """Hears of everything and does nothing."""

    def verification(self) -> AbstractContextManager[None]:
        """Around one post, from its checked order to its outcome."""
        return nullcontext()

    def evaluation(self) -> AbstractContextManager[None]:
        """Around one evaluation, which any number of posts may share."""
        return nullcontext()

    def answered(self, outcome: Outcome) -> None:
        """A post has got this outcome."""

    def responded(self, path: str, status: int) -> None:
        """A request was answered with this status; 499 = its client had gone."""


NOBODY = Watcher()
