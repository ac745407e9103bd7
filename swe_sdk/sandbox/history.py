"""A repository without a future: nothing in it but one commit and what that commit leads to, and proof of it.

Agents look up the fix of an issue where the repository still holds it: in branches, tags, a remote's refs, reflogs,
stashes, notes, replaced objects, other packs, borrowed object stores, or in objects that nothing names any more. So
nothing is deleted here that could be forgotten: the base and its history are packed anew, and of the rest of ``.git``
only what is on a list stays. Then a second script, which knows nothing of the first, looks at everything that is left.

Not looked at: submodules, and copies of the repository elsewhere in the box.
"""

from __future__ import annotations

from swe_sdk.errors import BuildFailed, SandboxLost
from swe_sdk.model.exec_result import ExecResult
from swe_sdk.model.ids import new_id
from swe_sdk.sandbox.contract import Box

TIMEOUT_S = 1800.0
_OUTPUT_BYTES = 1 << 16

_FRAME = r"""
set -eu
own=/tmp/$NAME
trap 'rm -rf "$own"' EXIT
mkdir -p "$own/home"
printf '[safe]\n\tdirectory = *\n' > "$own/home/.gitconfig"
for name in $(env | sed -n 's/^\(GIT_[A-Z_]*\)=.*/\1/p'); do unset "$name"; done
export HOME="$own/home" XDG_CONFIG_HOME="$own/home/.config" LC_ALL=C GIT_CONFIG_NOSYSTEM=1 GIT_TERMINAL_PROMPT=0
export GIT_NO_REPLACE_OBJECTS=1 GIT_GRAFT_FILE=/dev/null GIT_DIR="$PWD/.git" GIT_WORK_TREE="$PWD"
g() {
    git -c core.hooksPath=/dev/null -c core.fsmonitor=false -c core.commitGraph=false -c core.multiPackIndex=false \
        -c pack.packSizeLimit=0 -c gc.auto=0 -c maintenance.auto=false -c advice.graftFileDeprecated=false "$@"
}
lines() { wc -l < "$1" | tr -d ' '; }
some() { head -n 3 "$1" | tr '\n' ' '; }
base=$(g rev-parse --verify --quiet --end-of-options "$BASE^{commit}") || { echo "there is no commit $BASE"; exit 3; }
"""
"""Deaf to whatever configuration, replaced objects, grafts and variables are there. ``rm`` never follows links."""

STEPS = {
    "place": r"""
if [ -L .git ] || [ ! -d .git ] || [ -e .git/commondir ] || [ -d .git/reftable ]; then
    echo "the repository does not lie in $PWD/.git as plain files"
    exit 3
fi
""",
    "index": r"""
rm -f .git/index.lock
g reset -q "$base"
""",
    "references": r"""
branch=$(g symbolic-ref -q HEAD) || branch=
g for-each-ref --merged "$base" --format='%(objecttype)%(*objecttype) %(objectname) %(refname)' refs/tags > "$own/tags"
rm -rf .git/packed-refs .git/refs
mkdir -p .git/refs/heads .git/refs/tags
if [ -z "$branch" ]; then
    printf '%s\n' "$base" > .git/HEAD
else
    g update-ref --no-deref "$branch" "$base"
fi
while read -r kind object name; do
    case $kind in commit | tagcommit) g update-ref --no-deref "$name" "$object" ;; esac
done < "$own/tags"
""",
    "objects": r"""
{ printf '%s\n' "$base"; g for-each-ref --format='%(objectname)'; } > "$own/tips"
g pack-objects -q --revs "$own/pack" < "$own/tips" > "$own/name"
rm -rf .git/objects
mkdir -p .git/objects/info .git/objects/pack
mv "$own"/pack-* .git/objects/pack/
if [ -f .git/shallow ]; then
    g rev-list "$base" > "$own/commits"
    grep -F -x -f "$own/commits" .git/shallow > "$own/shallow" || true
    cat "$own/shallow" > .git/shallow
fi
""",
    "configuration": r"""
g config --file .git/config -z --name-only --get-regexp '^(remote|branch|include|includeif|url)\.' > "$own/keys" || true
xargs -0 -r -n 1 sh -c 'git config --file .git/config --remove-section "${1%.*}" 2> /dev/null || true' key < "$own/keys"
g config --file .git/config --unset-all extensions.partialClone || true
""",
    "rest": r"""
for entry in .git/* .git/.[!.]* .git/..?*; do
    case ${entry#.git/} in
        HEAD | config | description | hooks | index | info | modules | objects | packed-refs | refs | shallow) ;;
        *) rm -rf "$entry" ;;
    esac
done
for entry in .git/info/* .git/info/.[!.]*; do
    case ${entry#.git/info/} in attributes | exclude | sparse-checkout) ;; *) rm -rf "$entry" ;; esac
done
""",
}
"""What scrubbing does, in this order."""

_VERIFY = r"""
say() { printf '%s\n' "$*"; }
if [ -L .git ] || [ ! -d .git ] || [ -L .git/objects ] || [ -L .git/refs ]; then say "parts of .git lie elsewhere"; fi
[ "$(g rev-parse --verify HEAD)" = "$base" ] || say "HEAD is not the base"

g rev-list --all HEAD --reflog --not "$base" > "$own/later"
[ ! -s "$own/later" ] || say "$(lines "$own/later") commits beyond the base have names: $(some "$own/later")"
g for-each-ref --format='%(refname)' | grep -v -E '^refs/(heads|tags)/' > "$own/odd" || true
[ ! -s "$own/odd" ] || say "references beside branches and tags: $(some "$own/odd")"
g for-each-ref --format='%(objecttype)%(*objecttype)' | grep -v -x -E 'commit|tagcommit' > "$own/odd" || true
[ ! -s "$own/odd" ] || say "references to something else than commits"

g rev-list --objects --all "$base" | sed 's/ .*//' | sort -u > "$own/reachable"
g cat-file --batch-all-objects --batch-check='%(objectname) %(objecttype)' | sort -u > "$own/all"
sed 's/ .*//' "$own/all" | comm -13 "$own/reachable" - > "$own/extra"
if [ -s "$own/extra" ]; then
    commits=$(grep -F -f "$own/extra" "$own/all" | grep -c ' commit$' || true)
    say "$(lines "$own/extra") objects that the base does not lead to, $commits of them commits: $(some "$own/extra")"
fi
g fsck --connectivity-only --no-dangling --no-progress > "$own/fsck" 2>&1 || say "git fsck: $(some "$own/fsck")"

for name in alternates http-alternates; do
    [ ! -e ".git/objects/info/$name" ] || say "it borrows objects: .git/objects/info/$name"
done
find .git/objects/pack -type f ! -name '*.pack' ! -name '*.idx' ! -name '*.rev' > "$own/odd"
[ ! -s "$own/odd" ] || say "files beside its pack: $(some "$own/odd")"
find .git/objects/pack -name '*.pack' > "$own/packs"
[ "$(lines "$own/packs")" -le 1 ] || say "$(lines "$own/packs") packs"

g remote > "$own/remotes"
[ ! -s "$own/remotes" ] || say "remotes: $(some "$own/remotes")"
for entry in .git/* .git/.[!.]* .git/info/* .git/info/.[!.]*; do
    [ -e "$entry" ] || [ -L "$entry" ] || continue
    case ${entry#.git/} in
        HEAD | config | description | hooks | index | info | modules | objects | packed-refs | refs | shallow) ;;
        info/attributes | info/exclude | info/sparse-checkout) ;;
        *) say "left over: $entry" ;;
    esac
done
"""


async def scrub(box: Box, workdir: str, base_commit: str) -> None:
    """Leave in the repository at ``workdir`` ``base_commit``, its ancestors and their tags, and nothing else of a past.

    The working tree is not touched; what it has staged is no longer staged. The current branch ends at the base.
    Raises ``BuildFailed`` where the repository cannot be made clean, or is not clean afterwards, and ``SandboxLost``.
    """
    done = await _run(box, "".join(STEPS.values()), workdir, base_commit)
    if not done.ok:
        raise _failed("scrub the history", done)
    findings = await verify(box, workdir, base_commit)
    if findings:
        raise BuildFailed("verify the history", "\n".join(findings))


async def verify(box: Box, workdir: str, base_commit: str) -> tuple[str, ...]:
    """Every trace of something else than ``base_commit`` and its past, one a line; none in a clean repository.

    Raises ``BuildFailed`` where git cannot say, and ``SandboxLost``.
    """
    done = await _run(box, _VERIFY, workdir, base_commit)
    if not done.ok:
        raise _failed("verify the history", done)
    return tuple(done.stdout.splitlines())


async def _run(box: Box, script: str, workdir: str, base_commit: str) -> ExecResult:
    env = {"NAME": new_id("history"), "BASE": base_commit}
    result = await box.exec(
        ["sh", "-c", _FRAME + script], cwd=workdir, env=env, timeout_s=TIMEOUT_S, output_bytes=_OUTPUT_BYTES
    )
    if result.status == "lost":
        raise SandboxLost("the sandbox died while the history of its repository was scrubbed")
    return result


def _failed(step: str, done: ExecResult) -> BuildFailed:
    return BuildFailed(step, f"{done.stdout}{done.stderr}(it {done.summary})")
