"""What a repository in a box amounts to as a patch against its recorded base: raw bytes, whatever happened there."""

from __future__ import annotations

from swe_sdk.errors import SandboxLost, TransferFailed
from swe_sdk.model.ids import new_id
from swe_sdk.model.patch import Patch
from swe_sdk.sandbox.build import BASE_PATH
from swe_sdk.sandbox.contract import Box

DIFF_TIMEOUT_S = 300.0

# A repository of our own beside the agent's: its objects are borrowed, but neither its index (which may be locked), nor
# its configuration and hooks (which may run programs, reshape the diff, or never end), nor its HEAD (it may have
# committed). Nested repositories, which git would record as a bare commit id or choke on, are left out and brought in
# file by file: what is not ignored, and what was tracked already. Submodules of the base stay as they are.
_SCRIPT = r"""
set -e
mkdir -p "$OWN"
cd "$OWN"
git init -q --bare --template= git
export GIT_DIR="$OWN/git" GIT_WORK_TREE="$TREE" GIT_INDEX_FILE="$OWN/index"
git config core.bare false
cd "$TREE"
theirs=.git
[ -f .git ] && theirs=$(sed -n 's/^gitdir: //p' .git)
[ -f "$theirs/commondir" ] && theirs=$(cd "$theirs" && cd "$(cat commondir)" && pwd)
mkdir -p "$OWN/git/objects/info"
realpath -e "$theirs/objects" > "$OWN/git/objects/info/alternates"
not_ignored() {
    sort -zu > "$OWN/asked"
    git check-ignore -z --no-index --stdin < "$OWN/asked" | sort -zu | comm -z -23 "$OWN/asked" -
}
git read-tree "$BASE"
find . -mindepth 2 -path ./.git -prune -o -name .git -prune -print0 |
    sed -z 's|^\./||; s|/\.git$||' | not_ignored > "$OWN/nested"
printf '.\0' > "$OWN/paths"
sed -z 's|^|:(exclude,literal,top)|' "$OWN/nested" >> "$OWN/paths"
git add -A --pathspec-from-file="$OWN/paths" --pathspec-file-nul
: > "$OWN/tracked"
while IFS= read -r -d '' nested; do
    case $(git ls-files -s -- ":(literal,top)$nested") in 160000*) continue ;; esac
    git ls-files -z -- ":(literal,top)$nested" >> "$OWN/tracked"
    find "./$nested" -name .git -prune -o \( -type f -o -type l \) -print0
done < "$OWN/nested" | sed -z 's|^\./||' | sort -zu > "$OWN/found"
git update-index -z --force-remove --stdin < "$OWN/tracked"
sort -zu "$OWN/tracked" -o "$OWN/tracked"
{ not_ignored < "$OWN/found"; comm -z -12 "$OWN/found" "$OWN/tracked"; } |
    git update-index --add --replace -z --stdin
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
        "GIT_CONFIG_COUNT": "4",
        "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*",
        "GIT_CONFIG_KEY_1": "core.autocrlf", "GIT_CONFIG_VALUE_1": "false",
        "GIT_CONFIG_KEY_2": "gc.auto", "GIT_CONFIG_VALUE_2": "0",
        "GIT_CONFIG_KEY_3": "core.protectNTFS", "GIT_CONFIG_VALUE_3": "false",
    }  # fmt: skip
    try:
        # an environment of its own: none of the task's variables may reach git or bash
        command = ["env", "-i", *(f"{name}={value}" for name, value in env.items()), "/bin/bash", "-c", _SCRIPT]
        result = await box.exec(command, cwd="/", timeout_s=DIFF_TIMEOUT_S)
        if result.status == "lost":
            raise SandboxLost("the sandbox died while its patch was taken")
        if not result.ok:
            raise TransferFailed(
                f"the patch could not be taken: git {result.summary}: {result.stderr.strip()[-500:]}",
                remedy=f"is {base_commit} still in the repository at {workdir}?",
            )
        return Patch(data=await box.read(f"{own}/patch"))
    finally:
        if await box.status() == "running":
            await box.exec(["rm", "-rf", own], cwd="/", timeout_s=60)
