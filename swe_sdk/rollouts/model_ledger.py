"""The model gateway's ledger in a run's store: an event for each call, its bodies as files of the attempt."""

from __future__ import annotations

from pathlib import Path

from swe_sdk.agents.gateway.ledger import Capture, ModelCall
from swe_sdk.store.atomic import disk_full_is_typed
from swe_sdk.store.events import ModelCalled
from swe_sdk.store.writer import RunWriter


class RunLedger:
    """A :class:`swe_sdk.agents.gateway.ledger.Ledger` that writes a run; any number of calls at the same time."""

    def __init__(self, writer: RunWriter) -> None:
        self._writer = writer

    def begin(self, rollout_id: str, attempt: int, call_id: str) -> Capture:
        """The files of one call. ``NoSpace`` on a full disk, here and in all that follows."""
        folder = self._writer.folder(rollout_id, attempt) / "model_calls"
        with disk_full_is_typed(folder):
            folder.mkdir(exist_ok=True)
        return _RunCapture(self._writer, folder / call_id)


class _RunCapture:
    def __init__(self, writer: RunWriter, stem: Path) -> None:
        self._writer = writer
        self._request = stem.with_name(f"{stem.name}.request.json")
        self._response = stem.with_name(f"{stem.name}.response")

    def request(self, data: bytes) -> None:
        _append(self._request, data)

    def response(self, data: bytes) -> None:
        _append(self._response, data)

    def finish(self, call: ModelCall) -> None:
        self._writer.append(
            ModelCalled(
                rollout_id=call.rollout_id,
                attempt=call.attempt,
                call_id=call.call_id,
                model=call.model,
                route=call.route,
                status=call.status,
                seconds=call.seconds,
                first_byte_s=call.first_byte_s,
                tokens_in=call.prompt_tokens or 0,
                tokens_out=call.completion_tokens or 0,
                tries=call.tries,
                error=call.error or ("" if call.end == "delivered" else call.end),
                request=self._keep(self._request, call),
                response=self._keep(self._response, call),
            )
        )

    def _keep(self, path: Path, call: ModelCall) -> str | None:
        """Record a body, if there is one; where it lies."""
        if not path.exists():
            return None
        kept = self._writer.adopt(path, rollout_id=call.rollout_id, attempt=call.attempt, role="model_call")
        return kept.path


def _append(path: Path, data: bytes) -> None:
    with disk_full_is_typed(path), path.open("ab") as file:
        file.write(data)
