"""How a box reaches the model: an OpenAI-compatible URL that works from inside, probed before the agent starts.

=========== ========= ===================================================================================
provider    network   way
=========== ========= ===================================================================================
any         none      *listener*: a socket within the box's own network, opened by its supervisor and
                      served by this process. The box reaches the gateway, and nothing else.
local,      host      *loopback*: the gateway's own port. The box shares this machine's network.
docker,
apptainer
any other   any       *service*: the gateway's address as boxes elsewhere see it (``service_url``)
=========== ========= ===================================================================================

Providers whose boxes cannot listen need the third way for any network.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from swe_sdk.agents.contract import ModelAccess
from swe_sdk.agents.gateway.endpoint import ModelEndpoint, is_loopback
from swe_sdk.agents.gateway.gateway import Gateway
from swe_sdk.agents.gateway.session import GatewaySession
from swe_sdk.agents.gateway.settings import ModelAllowance, ModelUsage
from swe_sdk.errors import ModelEgressUnavailable, SandboxClosed, SandboxError, SandboxLost, SweError
from swe_sdk.sandbox.contract import Box, Network, SandboxProvider, SupportsListen

__all__ = ["BOX_PORT", "ModelEgress", "ModelEndpoint", "ModelLink", "Way", "find_way", "model_env", "probe_box"]

Way = Literal["listener", "loopback", "service"]
BOX_PORT = 46280
"""The listener's port in every box, so that a harness finds the model at the same address after a restore. Where a
program of the box has it already, another one is taken."""
_ON_THIS_MACHINE = frozenset({"local", "docker", "apptainer"})
_PROBE_TIMEOUT_S = 30.0
_NO_CLIENT = 42
_PROBE = f"""
unset http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY
found={_NO_CLIENT}
by() {{
  command -v "$1" > /dev/null 2>&1 || return
  "$@"
  code=$?
  if [ $code = 0 ]; then exit 0; fi
  if [ $code -lt 126 ]; then found=1; fi
}}
by curl -q -sS -m 10 "$1"
by wget -q -T 10 -O - "$1"
by python3 -c 'import sys, urllib.request as u; print(u.urlopen(sys.argv[1], timeout=10).read().decode())' "$1"
by bash -c 'exec 3<> "/dev/tcp/$1/$2" && printf "GET /health HTTP/1.0\\r\\n\\r\\n" >&3 && cat <&3' bash "$2" "$3"
exit $found
"""
"""Fetches URL $1, at host $2 and port $3, with whatever the box has. Exit code 42 where it has nothing that works: a
client that crashes (as the one in a static busybox does) is none."""


def find_way(provider: str, network: Network, *, can_listen: bool, service_url: str | None = None) -> Way:
    """How boxes of a provider reach the gateway; ``ModelEgressUnavailable`` says why they cannot."""
    if can_listen and network == "none":
        return "listener"
    if provider in _ON_THIS_MACHINE and network == "host":
        return "loopback"
    where = f"boxes of provider {provider!r} with network={network!r}"
    if service_url is None:
        raise ModelEgressUnavailable(
            f"{where} cannot reach the model gateway of this machine",
            remedy="give service_url, the gateway's address as those boxes see it",
        )
    if is_loopback(service_url):
        raise ModelEgressUnavailable(
            f"{where} are elsewhere, and {service_url} is this machine's own loopback interface",
            remedy="let the gateway listen on an address that they reach, and give that one",
        )
    return "service"


def model_env(access: ModelAccess) -> dict[str, str]:
    """The four variables that a program in the box gets, and no others. For ``exec(env=...)``; never for arguments."""
    url = access.box_url or access.base_url
    return {
        "OPENAI_BASE_URL": url,
        "NEMO_GYM_MODEL_BASE_URL": url,
        "OPENAI_API_KEY": access.api_key.get_secret_value(),
        "NEMO_GYM_MODEL": access.name,
    }


@dataclass(frozen=True)
class ModelLink:
    """An attempt's way to its model, while it lasts."""

    access: ModelAccess
    session: GatewaySession
    """Of the gateway: usage, calls under way, hold and drop."""
    way: Way | None
    """None where the box cannot reach the model, and need not."""

    @property
    def trouble(self) -> SweError | None:
        """The failure of the endpoint that the attempt has not got over."""
        return self.session.trouble

    @property
    def usage(self) -> ModelUsage:
        """What the attempt has used of the model."""
        return self.session.usage

    @property
    def refused(self) -> int:
        """Calls that were refused because its allowance was spent."""
        return self.session.refused

    def held_at_call(self) -> AbstractAsyncContextManager[None]:
        """See :meth:`swe_sdk.agents.gateway.session.GatewaySession.held_at_call`."""
        return self.session.held_at_call()


class ModelEgress:
    """Gives each attempt its access to the model; :class:`swe_sdk.rollouts.ports.ModelSource` for the engine.

    ``service_url`` is the gateway's base URL as boxes elsewhere see it. ``must_reach=False`` is for agents that work
    in this process: their boxes need not reach the model, and are not probed.
    """

    def __init__(
        self,
        gateway: Gateway,
        *,
        service_url: str | None = None,
        allowance: ModelAllowance | None = None,
        must_reach: bool = True,
    ) -> None:
        self.gateway = gateway
        self._service_url = service_url.rstrip("/").removesuffix("/v1") + "/v1" if service_url else None
        self._allowance = allowance
        self._must_reach = must_reach

    @asynccontextmanager
    async def connect(
        self,
        provider: SandboxProvider,
        box: Box,
        *,
        rollout_id: str,
        attempt: int,
        used: ModelUsage | None = None,
    ) -> AsyncIterator[ModelLink]:
        """Open the way for one attempt; it ends with the block.

        Before the agent starts, and before a token is spent, the endpoint is asked whether it is there, and the box
        whether it reaches the gateway. Raises ``ModelUnreachable``, ``ModelFailed`` or ``ModelEgressUnavailable``, and
        ``SandboxLost`` where the box is not there any more.
        """
        await self.gateway.check()
        async with self.gateway.session(rollout_id, attempt, allowance=self._allowance, used=used) as session:
            if not self._must_reach:
                yield ModelLink(self._access(session, None), session, None)
                return
            way = self._way(provider, box)
            async with self._opened(way, box, session) as url:
                await probe_box(box, url, self.gateway.id, must_have_client=way != "listener")
                yield ModelLink(self._access(session, url), session, way)

    def _way(self, provider: SandboxProvider, box: Box) -> Way:
        can_listen = "listen" in provider.capabilities and isinstance(box, SupportsListen)
        return find_way(provider.name, box.spec.network, can_listen=can_listen, service_url=self._service_url)

    def _opened(self, way: Way, box: Box, session: GatewaySession) -> AbstractAsyncContextManager[str]:
        if way == "listener":
            return self._listening(box, session)
        return _constant(self.gateway.url if way == "loopback" else self._service_url or "")

    @asynccontextmanager
    async def _listening(self, box: Box, session: GatewaySession) -> AsyncIterator[str]:
        assert isinstance(box, SupportsListen)
        try:
            port, listener = await box.listen(BOX_PORT)
        except (SandboxLost, SandboxClosed):
            raise
        except SandboxError:
            port, listener = await box.listen(0)  # a program of the box listens there
        async with self.gateway.serve(listener, session):
            yield f"http://127.0.0.1:{port}/v1"

    def _access(self, session: GatewaySession, url: str | None) -> ModelAccess:
        gateway = self.gateway
        return ModelAccess(name=gateway.endpoint.model, base_url=gateway.url, box_url=url, api_key=session.key)


async def probe_box(box: Box, url: str, gateway_id: str, *, must_have_client: bool) -> None:
    """Ask the gateway for its name, from within the box; ``ModelEgressUnavailable`` where it does not answer.

    A box may have no program that speaks HTTP. With ``must_have_client=False`` that is no failure: the supervisor has
    opened the socket inside.
    """
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    health = f"{url.removesuffix('/v1')}/health"
    command = ["sh", "-c", _PROBE, "sh", health, parts.hostname or "", str(port)]
    result = await box.exec(command, cwd="/", timeout_s=_PROBE_TIMEOUT_S)
    if result.status == "lost":
        raise SandboxLost(f"box {box.id} died while it was asked whether it reaches the model")
    if gateway_id in result.stdout:
        return
    if result.exit_code == _NO_CLIENT and not must_have_client:
        return
    said = (result.stderr or result.stdout).strip()[-300:]
    raise ModelEgressUnavailable(
        f"box {box.id} does not reach the model gateway at {health}: the probe {result.summary} {said}".rstrip(),
        remedy="is the address right, and may its network be reached from there?",
    )


@asynccontextmanager
async def _constant(url: str) -> AsyncIterator[str]:
    yield url
