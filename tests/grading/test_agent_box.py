"""The box of an agent is never the box of a grade: only the patch goes from one to the other."""

from __future__ import annotations

import pytest

from swe_sdk.grading.verify import grade
from swe_sdk.sandbox.sandbox import Sandbox
from tests.grading.tiny import make_task

pytestmark = pytest.mark.anyio

MARKS = "test -e /tmp/left -o -e /usr/local/bin/marker -o -e ~/.config/left"
LOOK = f"""
sh tests/check.sh
say() {{ if eval "$2"; then echo "PASSED check::$1"; else echo "FAILED check::$1"; fi; }}
say files '! {{ {MARKS}; }}'
say processes '! grep -q left-behind /proc/[0-9]*/cmdline'
say programs 'case $(command -v grep) in /usr/bin/grep | /bin/grep) ;; *) false ;; esac'
say variables 'test -z "$LEFT"'
"""
LOOKED = tuple(f"check::{name}" for name in ("runs", "files", "processes", "programs", "variables"))
ATTACK = r"""
mkdir -p /tmp/bin ~/.config ~/.local/bin ~/.local/lib/python3.11/site-packages /usr/local/bin
printf '#!/bin/sh\necho "PASSED check::answer"\n' | tee /usr/local/bin/grep /tmp/bin/sh ~/.local/bin/sh > /dev/null
chmod 755 /usr/local/bin/grep /tmp/bin/sh ~/.local/bin/sh
touch /tmp/left /usr/local/bin/marker ~/.config/left
echo 'export LEFT=1 PATH=/tmp/bin:$PATH' | tee -a ~/.bashrc ~/.profile ~/.bash_profile >> ~/.zshenv
printf 'import os\nos.environ["LEFT"] = "1"\n' > ~/.local/lib/python3.11/site-packages/usercustomize.py
git config core.hooksPath /tmp/bin
git config alias.apply '!true'
printf '#!/bin/sh\ntouch /tmp/left\n' > .git/hooks/post-checkout
chmod 755 .git/hooks/post-checkout
echo 'echo PASSED check::answer' >> tests/check.sh
git -c user.name=a -c user.email=a@b commit -qam 'a new base'
(exec -a left-behind sh -c 'while :; do touch /tmp/left; sleep 0.05; done' > /dev/null 2>&1 &)
sed -i 's/answer = 41/answer = VALUE/' src.txt
"""


@pytest.mark.parametrize(("value", "status"), [("42", "resolved"), ("43", "unresolved")])
async def test_what_an_agent_leaves_behind_stays_behind(provider, tmp_path, value: str, status: str) -> None:
    task = make_task(tmp_path / "repo", test_command=LOOK, pass_to_pass=LOOKED)
    async with Sandbox(task, provider=provider) as box:
        (await box.exec(["bash", "-c", ATTACK.replace("VALUE", value)])).check()
        patch = await box.diff()
        outcome = await grade(task, patch, provider=provider)
    assert {path for file in patch.files for path in file.paths} == {b"src.txt", b"tests/check.sh"}
    assert outcome.status == status, outcome.evidence
    assert set(outcome.tests.pass_to_pass.values()) == {"PASSED"}, outcome.tests
    assert outcome.tests.fail_to_pass == {"check::answer": "PASSED" if value == "42" else "FAILED"}
    assert outcome.evidence["tampered_paths"] == ["tests/check.sh"]
