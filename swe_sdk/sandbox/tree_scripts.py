"""The shell scripts of :mod:`swe_sdk.sandbox.tree`, to be joined: bash, coreutils, findutils, sed, git 2.25 or newer.

A repository of our own beside the agent's: its objects are borrowed, but neither its index (which may be locked), nor
its configuration and hooks (which may run programs, reshape the diff, or never end), nor its HEAD (it may have
committed). They get ``TREE`` (the working tree), ``BASE`` (a commit), ``OWN`` (a folder of ours), and find in it:

* ``before``: what differed before anybody worked there, a record each, sorted: ``?`` or the raw entry of git's diff, a
  tab, the path, a NUL;
* ``base.pack``, perhaps: the base commit and its files, where the repository itself has them no more.
"""

from __future__ import annotations

OPEN = r"""
set -e
mkdir -p "$OWN" "$TREE"
cd "$OWN"
touch before
git init -q --bare --template= git
export GIT_DIR="$OWN/git" GIT_WORK_TREE="$TREE" GIT_INDEX_FILE="$OWN/index"
git config core.bare false
cd "$TREE"
theirs=.git
[ -f .git ] && theirs=$(sed -n 's/^gitdir: //p' .git)
common=$theirs
[ -f "$theirs/commondir" ] && common=$(cd "$theirs" && cd "$(cat commondir)" && pwd)
mkdir -p "$OWN/git/objects/info"
if [ -e "$OWN/base.pack" ]; then
    git index-pack --stdin < "$OWN/base.pack" > /dev/null
else
    realpath -e "$common/objects" > "$OWN/git/objects/info/alternates"
fi
names() { cut -z -f 2- | sort -zu; }
: > "$OWN/untracked"
[ ! -s "$OWN/before" ] || sed -nz '/^?\t/p' "$OWN/before" | names > "$OWN/untracked"
differences() {
    git diff --cached --raw --no-abbrev --no-renames --ignore-submodules=none -z "$BASE" |
        paste -z -d '\t' - - | sort -zu
}
"""

WORKTREE = r"""
not_ignored() {
    sort -zu > "$OWN/asked"
    git check-ignore -z --no-index --stdin < "$OWN/asked" | sort -zu | comm -z -23 "$OWN/asked" -
}
git read-tree "$BASE"
find . -mindepth 2 -path ./.git -prune -o -name .git -prune -print0 |
    sed -z 's|^\./||; s|/\.git$||' | not_ignored > "$OWN/nested"
printf '.\0' > "$OWN/paths"
sed -z 's|^|:(exclude,literal,top)|' "$OWN/nested" >> "$OWN/paths"
: > "$OWN/tracked"
while IFS= read -r -d '' nested; do
    case $(git ls-files -s -- ":(literal,top)$nested") in 160000*) continue ;; esac
    git ls-files -z -- ":(literal,top)$nested" >> "$OWN/tracked"
    find "./$nested" -name .git -prune -o \( -type f -o -type l \) -print0
done < "$OWN/nested" | sed -z 's|^\./||' | sort -zu > "$OWN/found"
git add -u --pathspec-from-file="$OWN/paths" --pathspec-file-nul
git ls-files -z --others --exclude-standard | sed -z '/\/$/d' | sort -zu > "$OWN/others"
git update-index -z --force-remove --stdin < "$OWN/tracked"
sort -zu "$OWN/tracked" -o "$OWN/tracked"
comm -z -12 "$OWN/found" "$OWN/tracked" | git update-index --add --replace -z --stdin
not_ignored < "$OWN/found" | comm -z -23 - "$OWN/tracked" | sort -zu - "$OWN/others" > "$OWN/new"
"""
"""Nested repositories, which git would record as a bare commit id or choke on, are left out and brought in file by
file: what is not ignored, and what was tracked already. Submodules of the base stay as they are. In the index are then
the tracked files; the others are listed in ``new``."""

ADD_NEW = r"""
comm -z -23 "$OWN/new" "$OWN/untracked" | git update-index --add --replace -z --stdin
"""

LIST = r"""
{ sed -z 's|^|?\t|' "$OWN/new"; differences; } | sort -zu > "$OWN/result"
"""

COMMITTED = r"""
if [ -e "$OWN/base.pack" ] && [ -d "$common/objects" ]; then
    realpath -e "$common/objects" > "$OWN/git/objects/info/alternates"
fi
head=HEAD commit=
for _ in 1 2 3 4 5; do
    for place in "$theirs/$head" "$common/$head"; do
        [ -f "$place" ] && line=$(head -c 4096 -- "$place" | head -n 1) && break
        line=
    done
    case $line in
        'ref: refs/'*) head=${line#ref: } ;;
        '') [ -f "$common/packed-refs" ] && line=$(grep -F -- " $head" "$common/packed-refs" |
            while read -r id name; do [ "$name" != "$head" ] || printf '%s\n' "$id"; done | head -n 1) ;;
    esac
    case $line in 'ref: '*) continue ;; *) commit=$line; break ;; esac
done
case $commit in '' | *[!0-9a-f]*) commit=$BASE ;; esac
git read-tree "$commit"
git update-index -z --force-remove --stdin < "$OWN/untracked"
git diff --cached --raw --no-renames --ignore-submodules=none -z "$BASE" | paste -z -d '\t' - - |
    sed -nz '/^:[0-7]* 160000 /p; /^:160000 /p' | names > "$OWN/links"
"""
"""Its HEAD is read by hand, since its configuration must not be. Where it names no commit, nothing is committed."""

DIFF = r"""
touch "$OWN/links" "$OWN/same"
if [ -s "$OWN/before" ] || [ -s "$OWN/links" ]; then
    differences | comm -z -12 "$OWN/before" - | names | sort -zu - "$OWN/links" > "$OWN/same"
fi
if [ -s "$OWN/same" ]; then
    git --literal-pathspecs reset -q --pathspec-from-file="$OWN/same" --pathspec-file-nul "$BASE" -- > /dev/null
fi
git diff --cached --binary --full-index --no-renames --no-ext-diff --no-textconv --no-color \
    --src-prefix=a/ --dst-prefix=b/ "$BASE" > "$OWN/result"
if [ "$(stat -c %s "$OWN/result")" -gt "$MOST" ]; then
    echo "the patch has more than $MOST bytes" >&2
    exit 1
fi
"""

PACK_BASE = r"""
git rev-list --objects --no-walk "$BASE" | cut -d ' ' -f 1 | git pack-objects -q --stdout > "$OWN/result"
"""
