"""Whether Apptainer serves on this machine: tried for real, without any image."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

from anyio import to_thread

from swe_sdk.errors import SweError
from swe_sdk.model.exec_result import ExecResult
from swe_sdk.sandbox.contract import Mount, ProviderHealth, SandboxSpec
from swe_sdk.sandbox.trial import require_works

if TYPE_CHECKING:
    from swe_sdk.sandbox.providers.apptainer.provider import ApptainerProvider

_RUNTIME = "/.swe_sdk/runtime"
_TIMEOUT_S = 30.0


async def probe(provider: ApptainerProvider) -> ProviderHealth:
    """Make a box on an empty directory, run the interpreter that we carry in it, and close it."""
    details = provider.details()
    if sys.platform != "linux":
        return ProviderHealth(provider=provider.name, works=False, reason="it needs Linux", remedy="use docker")
    try:
        program = await to_thread.run_sync(lambda: provider.program)
        details = {"apptainer": f"{program.version}, {program.path}", **details}
        await require_works(partial(_run_in_new_box, provider))
    except (SweError, OSError) as error:
        reason, remedy = (error.message, error.remedy) if isinstance(error, SweError) else (str(error), "")
        return ProviderHealth(provider=provider.name, works=False, reason=reason, remedy=remedy, details=details)
    return ProviderHealth(provider=provider.name, works=True, details=details, limits=provider.enforcement())


async def _run_in_new_box(provider: ApptainerProvider) -> ExecResult:
    runtime = await to_thread.run_sync(lambda: provider.runtime)
    nothing = provider.store.root / "nothing"
    nothing.mkdir(exist_ok=True)
    mount = Mount(source=str(runtime.path), target=_RUNTIME)
    box = await provider.create(SandboxSpec(image=str(nothing), workdir="/", mounts=(mount,)))
    try:
        command = [*runtime.interpreter(_RUNTIME), "-c", "print('works')"]
        return await box.exec(command, timeout_s=_TIMEOUT_S)
    finally:
        await box.close()
