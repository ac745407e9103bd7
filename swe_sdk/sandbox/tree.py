"""What a repository in a box amounts to as a patch against its recorded base: raw bytes, whatever happened there."""

from __future__ import annotations

from swe_sdk.errors import TransferFailed
from swe_sdk.model.ids import new_id
from swe_sdk.model.patch import Patch
from swe_sdk.sandbox.build import BASE_PATH
from swe_sdk.sandbox.contract import Box

DIFF_TIMEOUT_S = 300.0

# A repository of our own beside the agent's: its objects are borrowed, but neither its index (which may be locked), nor
# its configuration and hooks (which may run programs or reshape the diff), nor its HEAD (it may have committed). Nested
# repositories, which git would record as a bare commit id or choke on, are left out and added file by file.
_SCRIPT = r"""
set -e
cd "$TREE"
rm -rf "$OWN" && mkdir -p "$OWN"
git init -q --bare "$OWN/git"
objects=$(git rev-parse --git-path objects 2>/dev/null || echo .git/objects)
realpath "$objects" > "$OWN/git/objects/info/alternates"
export GIT_DIR="$OWN/git" GIT_WORK_TREE="$TREE" GIT_INDEX_FILE="$OWN/index" GIT_LITERAL_PATHSPECS=0
git config core.bare false
git read-tree "$BASE"
find . -mindepth 2 -name .git -prune -print0 | sed -z 's|/\.git$||' > "$OWN/nested"
printf '.\0' > "$OWN/paths"
sed -z 's|^\./|:(exclude,literal,top)|' "$OWN/nested" >> "$OWN/paths"
git add -A --pathspec-from-file="$OWN/paths" --pathspec-file-nul
while IFS= read -r -d '' nested; do
    find "$nested" -name .git -prune -o \( -type f -o -type l \) -print0
done < "$OWN/nested" | sed -z 's|^\./||' | git update-index --add -z --stdin
git diff --cached --binary --full-index --no-renames --no-ext-diff --no-textconv --no-color \
    --src-prefix=a/ --dst-prefix=b/ "$BASE" > "$OWN/patch"
"""


async def take_patch(box: Box, *, workdir: str, base_commit: str) -> Patch:
    """Everything that differs from ``base_commit`` in ``workdir``: edits, new, deleted and binary files, modes, links.

    Committed or not, staged or not; files that the repository's own .gitignore names are left out. Raises
    ``TransferFailed`` where git cannot say, for example because the base commit was deleted from the repository.
    """
    own = f"/tmp/{new_id('diff')}"
    env = {
        "TREE": workdir, "BASE": base_commit, "OWN": own, "PATH": ":".join(BASE_PATH), "HOME": own, "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "", "GIT_ATTR_NOSYSTEM": "1",
        "GIT_CONFIG_COUNT": "3",
        "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*",
        "GIT_CONFIG_KEY_1": "core.autocrlf", "GIT_CONFIG_VALUE_1": "false",
        "GIT_CONFIG_KEY_2": "gc.auto", "GIT_CONFIG_VALUE_2": "0",
    }  # fmt: skip
    try:
        result = await box.exec(["/bin/bash", "-c", _SCRIPT], cwd="/", env=env, timeout_s=DIFF_TIMEOUT_S)
        if not result.ok:
            raise TransferFailed(
                f"the patch could not be taken: git {result.summary}: {result.stderr.strip()[-500:]}",
                remedy=f"is {base_commit} still in the repository at {workdir}?",
            )
        return Patch(data=await box.read(f"{own}/patch"))
    finally:
        if await box.status() == "running":
            await box.exec(["rm", "-rf", own], cwd="/", timeout_s=60)
