"""Layers on disk: kept while somebody needs them, gone when nobody does, whoever dies at whatever moment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from swe_sdk.errors import SnapshotNotFound
from swe_sdk.sandbox.providers.local.identity import Identity
from swe_sdk.sandbox.providers.local.layers import UPPER, LayerStore, remove_tree

NOBODY = Identity(first=None)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LayerStore]:
    store = LayerStore(tmp_path / "state", NOBODY)
    yield store
    store.close()


def layers(store: LayerStore) -> set[str]:
    return {path.name for path in (store.root / "layers").iterdir()}


def frozen(store: LayerStore, name: str, below: tuple[str, ...] = ()) -> tuple[str, ...]:
    """A snapshot ``name`` on top of other layers, of a box that is gone; its chain."""
    box = store.new_box(f"box-{name}", below)
    (box / UPPER / name).write_text(name)
    chain = store.seal(box, below)
    store.publish(name, chain)
    store.discard(box, chain, name)
    return chain


# -- who needs what ---------------------------------------------------------------------------------------------------


def test_a_layer_goes_with_the_last_snapshot_that_names_it(store: LayerStore) -> None:
    base = frozen(store, "base")
    left, right = frozen(store, "left", base), frozen(store, "right", base)
    assert layers(store) == {*left, *right}
    store.delete_snapshot("base")
    assert layers(store) == {*left, *right}, "others stand on it"
    store.delete_snapshot("left")
    assert layers(store) == set(right)
    store.delete_snapshot("right")
    assert layers(store) == set()
    assert list((store.root / "trash").iterdir()) == []


def test_a_box_keeps_the_layers_below_it(store: LayerStore) -> None:
    chain = frozen(store, "base")
    box = store.new_box("box", chain)
    store.delete_snapshot("base")
    assert layers(store) == set(chain)
    store.discard(box, chain, "base")
    assert layers(store) == set()


def test_a_box_goes_on_on_top_of_what_was_sealed(store: LayerStore) -> None:
    box = store.new_box("box", ())
    (box / UPPER / "file").write_text("first")
    chain = store.seal(box, ())
    store.renew(box, chain)
    assert list((box / UPPER).iterdir()) == []
    assert (store.root / "layers" / chain[0] / "diff/file").read_text() == "first"
    store.collect()
    assert layers(store) == set(chain), "its box needs it, though no snapshot names it yet"
    store.discard(box, chain)
    assert layers(store) == set()


def test_a_box_on_layers_that_are_gone_is_refused_and_leaves_nothing(store: LayerStore) -> None:
    chain = frozen(store, "base")
    store.delete_snapshot("base")
    with pytest.raises(SnapshotNotFound, match=chain[0]):
        store.new_box("box", chain)
    assert list((store.root / "boxes").glob("*/*")) == []
    with pytest.raises(SnapshotNotFound):
        store.publish("late", chain)
    assert store.snapshots() == []


def test_snapshots_are_listed_oldest_first(store: LayerStore) -> None:
    for name in ("c", "a", "b"):
        frozen(store, name)
    assert [record.id for record in store.snapshots()] == ["c", "a", "b"]
    assert store.snapshot("a").public.provider == "local"


@pytest.mark.parametrize("name", ["missing", "", "..", "../layers", "/etc/passwd", "a/b", "x" * 300, "\0", "\udcff"])
def test_a_snapshot_that_there_is_not_is_said_not_to_be_there(store: LayerStore, name: str) -> None:
    with pytest.raises(SnapshotNotFound):
        store.snapshot(name)
    store.delete_snapshot(name)


# -- deaths and crashes -----------------------------------------------------------------------------------------------

OWNER = """
import sys, time
from pathlib import Path
from swe_sdk.sandbox.providers.local.identity import Identity
from swe_sdk.sandbox.providers.local.layers import UPPER, LayerStore
store = LayerStore(Path(sys.argv[1]), Identity(first=None))
box = store.new_box("box", ())
(box / UPPER / "file").write_text("x")
chain = store.seal(box, ())
store.renew(box, chain)
print(store.owner, flush=True)
time.sleep(60)
"""


def start_owner(root: Path) -> tuple[subprocess.Popen[str], str]:
    child = subprocess.Popen([sys.executable, "-c", OWNER, str(root)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    return child, child.stdout.readline().strip()


def end(child: subprocess.Popen[str]) -> None:
    child.kill()
    child.wait()
    assert child.stdout is not None
    child.stdout.close()


def test_only_the_dead_are_swept(store: LayerStore) -> None:
    dead, dead_owner = start_owner(store.root)
    alive, live_owner = start_owner(store.root)
    mine = store.new_box("mine", ())
    try:
        assert store.sweep() == 0
        assert len(layers(store)) == 2
        end(dead)
        assert store.sweep() == 1
        assert {path.name for path in (store.root / "boxes").iterdir()} == {store.owner, live_owner}
        assert not (store.root / "owners" / f"{dead_owner}.lock").exists()
        assert len(layers(store)) == 1
        assert mine.exists()
    finally:
        end(alive)
    assert store.sweep() == 1
    assert layers(store) == set()
    assert list((store.root / "trash").iterdir()) == []


def test_an_owner_whose_lock_file_is_gone_is_dead(store: LayerStore) -> None:
    orphan = store.root / "boxes" / "owner-of-old" / "box-1"
    orphan.mkdir(parents=True)
    assert store.sweep() == 1
    assert not orphan.parent.exists()


def test_an_owner_that_goes_while_it_is_looked_at_does_no_harm(
    store: LayerStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lock file is opened, then it closes and removes the file, then the lock is free."""
    other = LayerStore(store.root, NOBODY)
    real_open = os.open

    def open_late(path: object, flags: int, mode: int = 0o777) -> int:
        fd = real_open(path, flags, mode)  # type: ignore[arg-type]
        if str(path).endswith(f"{other.owner}.lock"):
            monkeypatch.undo()
            other.close()
        return fd

    monkeypatch.setattr(os, "open", open_late)
    store.sweep()
    assert {path.name for path in (store.root / "owners").iterdir()} == {f"{store.owner}.lock"}


def test_closing_twice_is_nothing(store: LayerStore) -> None:
    store.close()
    store.close()
    assert list((store.root / "owners").iterdir()) == []
    assert list((store.root / "boxes").iterdir()) == []


BROKEN = ["", "{", "[]", "null", "1", '"text"', "{}", '{"chain": null, "created_at": 1}', '{"chain": ["layer-gone"]}']


@pytest.mark.parametrize("text", BROKEN)
def test_a_record_that_cannot_be_read_is_no_snapshot_and_hides_no_other(store: LayerStore, text: str) -> None:
    chain = frozen(store, "good")
    (store.root / "snapshots" / "broken.json").write_text(text)
    assert [record.id for record in store.snapshots()] == ["good"]
    with pytest.raises(SnapshotNotFound):
        store.snapshot("broken")
    store.sweep()
    assert not (store.root / "snapshots" / "broken.json").exists()
    assert layers(store) == set(chain)


@pytest.mark.parametrize("text", ["", "{", "null", "7"])
def test_a_broken_list_of_layers_does_not_stop_the_collection(store: LayerStore, text: str) -> None:
    frozen(store, "old")
    box = store.new_box("box", ())
    (box / "chain.json").write_text(text)
    store.delete_snapshot("old")
    assert layers(store) == set()


def test_a_snapshot_whose_layers_a_crash_has_taken_is_dropped(store: LayerStore) -> None:
    chain = frozen(store, "base")
    top = frozen(store, "top", chain)
    remove_tree(store.root / "layers" / chain[0])
    store.sweep()
    assert store.snapshots() == []
    assert top[0] not in layers(store)


# -- many at once -----------------------------------------------------------------------------------------------------


def test_listing_while_others_delete(store: LayerStore) -> None:
    """A snapshot may go between its being found and its being read."""
    other, stop = LayerStore(store.root, NOBODY), threading.Event()

    def make_and_delete() -> None:
        number = 0
        while not stop.is_set():
            name = f"s{(number := number + 1)}"
            frozen(other, name)
            other.delete_snapshot(name)

    worker = threading.Thread(target=make_and_delete)
    worker.start()
    try:
        for _ in range(300):
            for record in store.snapshots():
                assert len(record.chain) == 1
    finally:
        stop.set()
        worker.join()
        other.close()


WORKER = """
import random, sys
from pathlib import Path
from swe_sdk.errors import SnapshotNotFound
from swe_sdk.sandbox.providers.local.identity import Identity
from swe_sdk.sandbox.providers.local.layers import UPPER, LayerStore
store, seed = LayerStore(Path(sys.argv[1]), Identity(first=None)), int(sys.argv[2])
choose = random.Random(seed)
for number in range(60):
    existing = store.snapshots()
    below = choose.choice(existing) if existing and choose.random() < 0.7 else None
    chain = below.chain if below else ()
    try:
        box = store.new_box(f"box-{number}", chain)
    except SnapshotNotFound:
        continue
    for layer in chain:
        assert (store.root / "layers" / layer / "diff").is_dir(), "a layer went that a box needs"
    (box / UPPER / "file").write_text("x")
    if choose.random() < 0.6:
        chain = store.seal(box, chain)
        store.renew(box, chain)
        store.publish(f"snap-{seed}-{number}", chain)
    for layer in chain:
        assert (store.root / "layers" / layer / "diff").is_dir(), "a layer went that a box needs"
    store.discard(box, chain)
    if existing and choose.random() < 0.5:
        store.delete_snapshot(choose.choice(existing).id)
    if choose.random() < 0.1:
        store.sweep()
store.close()
"""


def test_processes_that_make_and_delete_at_once_lose_nothing(store: LayerStore) -> None:
    command = [sys.executable, "-c", WORKER, str(store.root)]
    children = [subprocess.Popen([*command, str(seed)], stderr=subprocess.PIPE, text=True) for seed in range(3)]
    errors = [child.communicate(timeout=60)[1] for child in children]
    assert errors == ["", "", ""]
    store.sweep()
    named = {layer for record in store.snapshots() for layer in record.chain}
    assert layers(store) == named
    for record in store.snapshots():
        store.delete_snapshot(record.id)
    assert layers(store) == set()


# -- deleting ---------------------------------------------------------------------------------------------------------


def test_any_tree_can_be_deleted(tmp_path: Path) -> None:
    root = tmp_path / "tree"
    (root / "closed/inner").mkdir(parents=True)
    (root / "closed/inner/file").write_text("")
    (root / "closed/inner").chmod(0)
    (root / "closed").chmod(0)
    (root / "link").symlink_to(tmp_path)
    os.mkfifo(root / "fifo")
    (root / "-rf").write_text("")
    os.mkdir(os.path.join(os.fsencode(root), b"latin-\xe9\nnew"))
    here = os.getcwd()
    os.chdir(root)
    try:
        for _ in range(1500):  # deeper than a path may be long, and than Python recurses
            os.mkdir("deep")
            os.chdir("deep")
    finally:
        os.chdir(here)
    keep = tmp_path / "kept"
    keep.write_text("")
    remove_tree(root)
    assert not root.exists()
    assert keep.exists(), "links are not followed"
    remove_tree(root)


def test_a_box_whose_directory_somebody_deleted_can_be_discarded(store: LayerStore) -> None:
    box = store.new_box("box", ())
    remove_tree(box)
    store.discard(box)


def test_records_are_plain_files_that_a_person_can_read(store: LayerStore) -> None:
    chain = frozen(store, "base")
    record = json.loads((store.root / "snapshots/base.json").read_text())
    assert record["chain"] == list(chain)
    assert record["created_at"] > 1e9
