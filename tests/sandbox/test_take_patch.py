"""A patch holds what the agent did, whatever it did to the repository, and nothing that it did not do."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from swe_sdk.errors import TransferFailed
from swe_sdk.model.environment import DirectorySource, SourceEnvironment
from swe_sdk.sandbox.contract import Box, SandboxSpec
from swe_sdk.sandbox.environments import prepare
from swe_sdk.sandbox.prepared import PreparedEnvironment
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from swe_sdk.sandbox.tree import take_patch
from tests.leaks import memory_folder
from tests.sandbox.repositories import (
    IDENTITY,
    WORKDIR,
    Tree,
    apply,
    commit_everything,
    patch_of,
    replace_tree,
    run,
    tree_of,
)
from tests.trees import Edit, EditableTree, edits, trees

pytestmark = pytest.mark.anyio

FILES = {
    "pkg/code.py": b"one\ntwo\nthree\nfour\nfive\nsix\nseven\n",
    "pkg/other.py": b"x = 1\n",
    "latin.txt": b"caf\xe9\nth\xe9\n",
    "crlf.txt": b"one\r\ntwo\r\n",
    "no-newline": b"end",
    "image.bin": bytes(range(256)) * 4,
    "run.sh": b"#!/bin/sh\n",
    "empty": b"",
    ".gitignore": b"*.log\nignored/\n",
    "tracked.log": b"tracked, though ignored\n",
    "vendor/lib/a.c": b"a\n",
    "vendor/lib/b.c": b"b\n",
}


@pytest.fixture(scope="module")
async def prepared(local_provider: LocalProvider, tmp_path_factory: pytest.TempPathFactory) -> PreparedEnvironment:
    root = tmp_path_factory.mktemp("project")
    for name, content in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    (root / "run.sh").chmod(0o755)
    (root / "link").symlink_to("pkg")
    steps = ("git add -f tracked.log && mkdir -p ignored && echo prebuilt > ignored/artifact",)
    return await prepare(local_provider, SourceEnvironment(source=DirectorySource(path=str(root)), install=steps))


@pytest.fixture
async def boxes(local_provider: LocalProvider, prepared: PreparedEnvironment) -> AsyncIterator[tuple[Box, Box]]:
    """The agent's, and a fresh one to grade in."""
    agents, fresh = await local_provider.create(prepared.spec()), await local_provider.create(prepared.spec())
    yield agents, fresh
    await agents.close()
    await fresh.close()


WORK = {
    "nothing": "true",
    "an edit": "echo eight >> pkg/code.py",
    "a touched file": "touch pkg/code.py",
    "a new file": "echo new > pkg/new.py",
    "a new file in a new directory": "mkdir -p a/b && echo new > a/b/c",
    "a new empty file": "touch a/b 2>/dev/null || touch newly",
    "an empty directory": "mkdir nothing-in-it",
    "a deleted file": "rm pkg/other.py",
    "a deleted directory": "rm -r vendor",
    "a renamed file": "mv pkg/code.py pkg/moved.py",
    "a new link": "ln -s pkg/code.py to-file; ln -s /etc/passwd out; ln -s nowhere dangling",
    "a changed link": "ln -sfn vendor link",
    "a file for a link": "rm link; echo file > link",
    "a link for a file": "rm empty; ln -s pkg empty",
    "a directory for a file": "rm empty; mkdir empty; echo x > empty/x",
    "a file for a directory": "rm -r vendor; echo x > vendor",
    "an executable": "chmod +x pkg/code.py",
    "no executable any more": "chmod -x run.sh",
    "a mode and an edit": "chmod +x pkg/code.py; echo x >> pkg/code.py",
    "a binary edit": r"printf '\0\1\2' >> image.bin",
    "a new binary": "head -c 100000 /dev/urandom > new.bin",
    "latin-1": r"printf 'na\357ve\n' >> latin.txt; printf 'new \351\n' > latin2.txt",
    "crlf": r"printf 'three\r\n' >> crlf.txt; sed -i 's/\r//' crlf.txt; printf 'a\r\nb\n' > mixed",
    "no final newline": "printf more >> no-newline; printf 'one\\ntwo' > another",
    "a final newline": "echo >> no-newline",
    "a file that looks like a patch": "git -c core.pager=cat log -p > log.patch; cp log.patch copy",
    "odd names": r"""touch 'a b' 'q"uote' "it's" 'back\slash' $'tab\t' $'new\nline' -- -dash ' lead' 'trail ' """
    r"""'$HOME' '*' $'latin\351' 日本 '[x]' ':(top)' '!x' '#x' 'a => b' '~'; mkdir 'd ir'; echo x > 'd ir/x y'""",
    "20 MB": "head -c 20000000 /dev/urandom > large.bin",
    "many files": "mkdir many; for i in $(seq 2000); do echo $i > many/$i; done",
    "ignored files": "echo x > x.log; echo more >> ignored/artifact; mkdir -p pkg/ignored; touch pkg/ignored/x",
    "an edit of a tracked file that is ignored": "echo more >> tracked.log",
    # whatever git knows of it
    "staged work": "echo staged >> pkg/code.py; echo new > new.py; git add -A",
    "staged, then changed": "echo staged > new.py; git add new.py; echo unstaged > new.py; rm pkg/other.py",
    "staged, then deleted": "echo staged > new.py; git add new.py; rm new.py",
    "removed from the index alone": "git rm -q --cached pkg/code.py",
    "intent to add": "echo new > new.py; git add -N new.py",
    "committed work": f"echo x >> pkg/code.py; echo n > new.py; git add -A; git {IDENTITY} commit -q -m work",
    "an amended base": f"echo x >> pkg/code.py; git add -A; git {IDENTITY} commit -q --amend -m other",
    "another branch": f"git checkout -q -b other; echo x > new.py; git add -A; git {IDENTITY} commit -q -m x",
    "a detached head": "git checkout -q --detach; echo x >> pkg/code.py",
    "an orphan branch": "git checkout -q --orphan other; git rm -rqf --cached .; echo x > new.py",
    "stashed work": f"echo x >> pkg/code.py; git {IDENTITY} stash -q; echo y >> pkg/other.py",
    "a conflict": f"git checkout -q -b b; echo b > empty; git {IDENTITY} commit -qam b; git checkout -q main; "
    f"echo m > empty; git {IDENTITY} commit -qam m; git {IDENTITY} merge b > /dev/null || true",
    "repacked": f"echo x >> pkg/code.py; git {IDENTITY} commit -qam work; git repack -q -a -d; git prune-packed",
    "a left-over lock": "echo x >> pkg/code.py; touch .git/index.lock .git/HEAD.lock .git/config.lock",
    "a broken index": "echo x >> pkg/code.py; echo broken > .git/index",
    "no index": "echo x >> pkg/code.py; rm .git/index",
    "a broken head": "echo x >> pkg/code.py; echo broken > .git/HEAD",
    "a head that is gone": "echo x >> pkg/code.py; echo ref: refs/heads/gone > .git/HEAD",
    "skipped and assumed files": "git update-index --skip-worktree pkg/code.py; git update-index --assume-unchanged "
    "pkg/other.py; echo x >> pkg/code.py; echo x >> pkg/other.py",
    "sparse checkout": "git sparse-checkout set --no-cone '/*' 2>/dev/null; echo x >> pkg/code.py",
    # whatever its configuration says
    "a broken configuration": "echo x >> pkg/code.py; echo '[broken' >> .git/config",
    "no configuration": "echo x >> pkg/code.py; rm .git/config",
    "an unknown extension": "echo x >> pkg/code.py; git config core.repositoryformatversion 9",
    "another work tree": "echo x >> pkg/code.py; git config core.worktree /nonexistent",
    "a bare repository": "echo x >> pkg/code.py; git config core.bare true",
    "modes that do not count": "git config core.fileMode false; chmod +x pkg/code.py",
    "links that are files": "git config core.symlinks false; ln -s x new",
    "line ends that are converted": r"git config core.autocrlf true; git config core.eol crlf; printf 'a\r\n' > new",
    "files that are hidden": "mkdir -p .git/info; echo '*' > .git/info/exclude; echo '*' > /tmp/hide; "
    "git config core.excludesFile /tmp/hide; echo x > new.py",
    "a replaced base": f"echo x >> pkg/code.py; git {IDENTITY} commit -qam work; git replace HEAD~1 HEAD",
    "a grafted base": "echo x >> pkg/code.py; git rev-parse HEAD > .git/shallow",
    "a worktree elsewhere": "git worktree add -q /tmp/elsewhere -b elsewhere; echo x >> pkg/code.py",
}


@pytest.mark.parametrize("script", WORK.values(), ids=list(WORK))
async def test_the_patch_makes_a_fresh_copy_equal(
    boxes: tuple[Box, Box], prepared: PreparedEnvironment, script: str
) -> None:
    agents, fresh = boxes
    before = without_ignored(await tree_of(agents))
    await run(agents, script)
    patch = await patch_of(agents, prepared.base_commit)
    await apply(fresh, patch)
    after = without_ignored(await tree_of(agents))
    assert without_ignored(await tree_of(fresh)) == after
    assert patch.exists == (after != before)


def without_ignored(tree: Tree) -> Tree:
    """What the project's own .gitignore does not name, or has been tracked all the same."""
    return {
        path: entry
        for path, entry in tree.items()
        if path == b"tracked.log" or not (path.endswith(b".log") or b"ignored/" in path)
    }


async def test_ignored_files_are_left_out_even_if_committed(
    boxes: tuple[Box, Box], prepared: PreparedEnvironment
) -> None:
    agents, _fresh = boxes
    await run(agents, f"echo x > x.log; git add -f x.log; git {IDENTITY} commit -q -m work; echo x > new.py")
    patch = await patch_of(agents, prepared.base_commit)
    assert [file.new for file in patch.files] == [b"new.py"]


# -- repositories within the repository -------------------------------------------------------------------------------

NESTED = {
    "without a commit": "mkdir sub; cd sub; git init -q; echo x > x.py; mkdir d; echo y > 'd/y z'",
    "with a commit": f"mkdir sub; cd sub; git init -q; echo x > x.py; git add -A; git {IDENTITY} commit -q -m s; "
    "echo y > y",
    "within another": "mkdir -p sub/b/c; git init -q sub; git init -q sub/b; echo x > sub/x; echo y > sub/b/c/y",
    "with an odd name": r"""git init -q $'s u\nb*[x]'; echo x > $'s u\nb*[x]'/x; git init -q ./-n; echo x > ./-n/x""",
    "over tracked files": "cd vendor; git init -q; echo more >> lib/a.c; echo new > lib/c.c",
    "over tracked files that are deleted": "git init -q vendor; rm vendor/lib/b.c",
    "in place of a tracked file": "rm empty; git init -q empty; echo x > empty/x",
    "in place of a tracked directory": "rm -r vendor; git init -q vendor; echo x > vendor/lib",
    "that are work trees": "git branch other; git worktree add -q sub other; echo x > sub/new.py",
    "that are only a file": "mkdir sub; echo gitdir: /nonexistent > sub/.git; echo x > sub/x",
    "that are broken": "mkdir -p sub/.git; echo broken > sub/.git/HEAD; echo x > sub/x",
    "with links and modes": "git init -q sub; ln -s x sub/link; echo x > sub/x; chmod +x sub/x",
    "that are empty": "git init -q sub",
    "that are links": "git init -q /tmp/elsewhere; echo x > /tmp/elsewhere/x; ln -s /tmp/elsewhere sub; mkdir t; "
    "ln -s /tmp/elsewhere/.git t/.git; echo y > t/y",
    "that are ignored": "mkdir ignored/sub; git init -q ignored/sub; echo x > ignored/sub/x; echo y > pkg/new.py",
    "with ignored files": "git init -q sub; echo x > sub/x.log; echo x > sub/x; echo '*.o' > sub/.gitignore; "
    "touch sub/a.o",
    "added as submodules": f"mkdir sub; cd sub; git init -q; echo x > x; git add -A; git {IDENTITY} commit -q -m s; "
    "cd ..; git add sub 2>/dev/null",
    "within .git": "mkdir -p .git/x/.git; echo x > .git/x/y; echo x > pkg/new.py",
}


@pytest.mark.parametrize("script", NESTED.values(), ids=list(NESTED))
async def test_files_of_repositories_within_are_files(
    boxes: tuple[Box, Box], prepared: PreparedEnvironment, script: str
) -> None:
    agents, fresh = boxes
    await run(agents, script)
    await apply(fresh, await patch_of(agents, prepared.base_commit))
    expected = without_ignored(await tree_of(agents))
    expected.pop(b"sub/a.o", None)
    assert without_ignored(await tree_of(fresh)) == expected


async def test_submodules_of_the_base_stay_as_they_are(boxes: tuple[Box, Box]) -> None:
    agents, _fresh = boxes
    make = f"git init -q sub; cd sub; echo x > x; git add -A; git {IDENTITY} commit -q -m s; cd .."
    await run(agents, f"{make}; git add sub 2>/dev/null; git {IDENTITY} commit -q -m base")
    base = (await run(agents, "git rev-parse HEAD")).decode().strip()
    assert (await patch_of(agents, base)).data == b""
    await run(agents, "echo y > sub/y; echo x > new.py")
    assert [file.paths for file in (await patch_of(agents, base)).files] == [(b"new.py",)]


# -- what an agent may set as a trap ----------------------------------------------------------------------------------

SHAPES = (
    "color.ui always", "core.abbrev 4", "core.quotePath false", "diff.algorithm patience", "diff.colorMoved zebra",
    "diff.context 0", "diff.dstPrefix x/", "diff.ignoreSubmodules all", "diff.interHunkContext 9",
    "diff.mnemonicPrefix true", "diff.noprefix true", "diff.orderFile /nonexistent", "diff.relative true",
    "diff.renames copies", "diff.srcPrefix y/", "diff.submodule log", "diff.suppressBlankEmpty true",
    "diff.wsErrorHighlight all",
)  # fmt: skip
TRAPS = {
    "diff.external": "git config diff.external '{trap}'",
    "a textconv filter": "git config diff.t.textconv '{trap}'; echo '* diff=t' > .git/info/attributes",
    "a diff command": "git config diff.t.command '{trap}'; echo '* diff=t' > .git/info/attributes",
    "a clean filter": "git config filter.t.clean '{trap}'; echo '* filter=t' > .git/info/attributes",
    "a process filter": "git config filter.t.process '{trap}'; git config filter.t.required true; "
    "echo '* filter=t' > .git/info/attributes",
    "an fsmonitor": "git config core.fsmonitor '{trap}'",
    "an fsmonitor daemon": "git config core.fsmonitor true; git config core.untrackedCache true",
    "hooks": "mkdir -p .git/hooks; for h in post-index-change pre-commit post-checkout reference-transaction; do "
    "printf '#!/bin/sh\\n{trap}\\n' > .git/hooks/$h; chmod +x .git/hooks/$h; done",
    "a path of hooks": "mkdir /tmp/h; printf '#!/bin/sh\\n{trap}\\n' > /tmp/h/post-index-change; chmod +x /tmp/h/*; "
    "git config core.hooksPath /tmp/h",
    "a pager and an editor": "git config core.pager '{trap}'; git config core.editor '{trap}'",
    "aliases": "for a in diff add init read-tree; do git config alias.$a '!{trap}'; done",
    "a user's configuration": "git config --global diff.external '{trap}'; git config --global diff.noprefix true; "
    "git config --global core.attributesFile /tmp/a; echo '* binary' > /tmp/a",
    "shapes of a diff": "".join(f"git config {setting};" for setting in SHAPES),
    "an included pipe": "mkfifo /tmp/pipe; git config include.path /tmp/pipe",
    "an included device": "git config include.path /dev/zero",
    "a program named git": "mkdir -p /tmp/bin ~/bin; for d in /tmp/bin ~/bin; do "
    "printf '#!/bin/sh\\n{trap}\\n' > $d/git; chmod +x $d/git; done",
    "start-up files": "echo '{trap}' > ~/.bashrc; echo '{trap}' > ~/.bash_profile; echo '{trap}' > ~/.profile",
    "alternates": "mkdir -p .git/objects/info; echo /nonexistent > .git/objects/info/alternates",
    "a promisor remote": "git config remote.origin.promisor true; git config remote.origin.url 'ext::{trap}'; "
    "git config protocol.ext.allow always; git config extensions.partialClone origin",
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("trap", TRAPS.values(), ids=list(TRAPS))
async def test_nothing_that_the_agent_set_up_runs_or_reshapes_the_patch(
    boxes: tuple[Box, Box], prepared: PreparedEnvironment, trap: str
) -> None:
    agents, fresh = boxes
    change = r"echo new > pkg/new.py; printf '\r\n\377' >> crlf.txt; echo x >> pkg/code.py; mv vendor/lib/a.c moved"
    await run(fresh, change)
    honest = await patch_of(fresh, prepared.base_commit)
    await run(agents, "mkdir -p .git/info; " + trap.replace("{trap}", "touch /var/tmp/sprung; cat") + "\n" + change)
    patch = await take_patch(agents, workdir=WORKDIR, base_commit=prepared.base_commit)
    assert await run(agents, "ls -A /var/tmp") == b""
    assert patch == honest
    assert b"\ndiff --git a/pkg/code.py b/pkg/code.py\n" in patch.data


async def test_variables_of_the_task_do_not_reach_git(
    local_provider: LocalProvider, prepared: PreparedEnvironment
) -> None:
    hostile = {"GIT_DIR": "/nonexistent", "GIT_EXTERNAL_DIFF": "false", "GIT_DIFF_OPTS": "-u0", "GIT_INDEX_FILE": "/x"}
    spec = prepared.spec().model_copy(update={"env": {**prepared.env, **hostile}})
    box = await local_provider.create(spec)
    try:
        await box.exec("echo x >> pkg/code.py")
        patch = await take_patch(box, workdir=WORKDIR, base_commit=prepared.base_commit)
        assert b"@@ -5,3 +5,4 @@" in patch.data
    finally:
        await box.close()


# -- where there is no patch ------------------------------------------------------------------------------------------

LOST = {
    "no repository": "rm -rf .git",
    "a base that is gone": f"git checkout -q --orphan o; echo x > x; git add x; git {IDENTITY} commit -q -m o; "
    "git branch -D -q main; git reflog expire --expire=now --all; git gc -q --prune=now",
    "no objects": "rm -rf .git/objects",
    "another repository": f"rm -rf .git; git init -q; git add -A; git {IDENTITY} commit -q -m other",
    "no directory": "rm -rf /testbed/* /testbed/.[!.]*; rmdir /testbed",
}


@pytest.mark.parametrize("script", LOST.values(), ids=list(LOST))
async def test_a_base_that_is_gone_is_a_typed_error(
    boxes: tuple[Box, Box], prepared: PreparedEnvironment, script: str
) -> None:
    agents, _fresh = boxes
    await agents.exec(["bash", "-c", script], cwd=WORKDIR)
    with pytest.raises(TransferFailed, match=prepared.base_commit):
        await take_patch(agents, workdir=WORKDIR, base_commit=prepared.base_commit)
    assert (await agents.exec(["ls", "-A", "/tmp"], cwd="/")).stdout == ""


async def test_a_box_without_a_repository_has_no_patch(local_provider: LocalProvider) -> None:
    box = await local_provider.create(SandboxSpec())
    try:
        with pytest.raises(TransferFailed, match="HEAD"):
            await take_patch(box, workdir=WORKDIR, base_commit="HEAD")
    finally:
        await box.close()


# -- anything at all --------------------------------------------------------------------------------------------------


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(before=trees(), changes=edits(repositories=True))
async def test_random_work_on_random_trees(
    boxes: tuple[Box, Box], before: dict[bytes, bytes], changes: list[Edit]
) -> None:
    agents, fresh = boxes
    with tempfile.TemporaryDirectory(prefix="swe_sdk-tests-", dir=memory_folder()) as folder:
        tree = EditableTree(Path(folder))
        tree.write_all(before)
        await replace_tree(agents, Path(folder))
        await replace_tree(fresh, Path(folder))
        base = await commit_everything(agents)
        await commit_everything(fresh)
        tree.apply(changes)
        await replace_tree(agents, Path(folder))
        patch = await patch_of(agents, base)
        await apply(fresh, patch)
        expected = await tree_of(agents)
        assert sorted(expected) == tree.files()
        assert await tree_of(fresh) == expected
